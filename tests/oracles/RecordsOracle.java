import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;

/**
 * Kafka's own record classes. Reads one JSON question a line, and writes one line for each: hex for bytes, JSON for
 * records, or "!" and the reason why there is neither. Imports are those of Kafka 4.3; older versions have the record
 * classes one package up.
 */
public class RecordsOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = answer(JSON.readTree(line));
            } catch (Exception e) {
                answer = "! " + e;
            }
            out.println(answer.replace('\n', ' '));
            out.flush();
        }
    }

    private static String answer(JsonNode asked) throws Exception {
        switch (asked.get("do").asText()) {
            case "write":
                return hex(write(asked).buffer());
            case "mark":
                return hex(marker(asked).buffer());
            case "read":
                return JSON.writeValueAsString(read(buffer(asked.get("bytes"))));
            case "lower":
                return hex(lower(asked));
            case "murmur2":
                return Integer.toString(Utils.murmur2(bytes(asked.get("bytes"))) & 0x7fffffff);
            default:
                throw new IllegalArgumentException("no such question");
        }
    }

    private static MemoryRecords write(JsonNode asked) {
        JsonNode given = asked.get("records");
        SimpleRecord[] records = new SimpleRecord[given.size()];
        for (int i = 0; i < records.length; i++) {
            JsonNode each = given.get(i);
            JsonNode names = each.get("headers");
            Header[] headers = new Header[names.size()];
            for (int j = 0; j < headers.length; j++)
                headers[j] = new RecordHeader(names.get(j).get(0).asText(), bytes(names.get(j).get(1)));
            records[i] = new SimpleRecord(
                    each.get("timestamp").asLong(), bytes(each.get("key")), bytes(each.get("value")), headers);
        }
        return MemoryRecords.withRecords(
                (byte) asked.get("magic").asInt(), asked.get("base_offset").asLong(),
                Compression.of(asked.get("codec").asText()).build(), type(asked.get("timestamp_type").asInt()),
                asked.get("producer_id").asLong(), (short) asked.get("producer_epoch").asInt(),
                asked.get("base_sequence").asInt(), asked.get("leader_epoch").asInt(),
                asked.get("transactional").asBoolean(), records);
    }

    private static MemoryRecords marker(JsonNode asked) {
        ControlRecordType kind = asked.get("commit").asBoolean() ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        return MemoryRecords.withEndTransactionMarker(
                asked.get("base_offset").asLong(), 1000L, 3, asked.get("producer_id").asLong(), (short) 0,
                new EndTransactionMarker(kind, 7));
    }

    private static ArrayNode read(ByteBuffer buffer) {
        ArrayNode batches = JSON.createArrayNode();
        for (RecordBatch batch : MemoryRecords.readableRecords(buffer).batches()) {
            batch.ensureValid();
            ObjectNode facts = batches.addObject();
            facts.put("magic", batch.magic());
            facts.put("codec", batch.compressionType().name);
            facts.put("last_offset", batch.lastOffset());
            facts.put("timestamp_type", batch.timestampType().id);
            facts.put("max_timestamp", batch.maxTimestamp());
            facts.put("producer_id", batch.producerId());
            facts.put("producer_epoch", batch.producerEpoch());
            facts.put("base_sequence", batch.baseSequence());
            facts.put("leader_epoch", batch.partitionLeaderEpoch());
            facts.put("transactional", batch.isTransactional());
            facts.put("control", batch.isControlBatch());
            ArrayNode records = facts.putArray("records");
            for (Record record : batch) {
                ObjectNode each = records.addObject();
                each.put("offset", record.offset());
                each.put("timestamp", record.timestamp());
                each.put("key", hex(record.key()));
                each.put("value", hex(record.value()));
                ArrayNode headers = each.putArray("headers");
                for (Header header : record.headers())
                    headers.addArray().add(header.key()).add(hex(wrap(header.value())));
            }
        }
        return batches;
    }

    /** Down-conversion for old consumers, which Kafka 4 does not have any more. */
    private static ByteBuffer lower(JsonNode asked) throws Exception {
        MemoryRecords records = MemoryRecords.readableRecords(buffer(asked.get("bytes")));
        Method convert = MemoryRecords.class.getMethod("downConvert", byte.class, long.class, Time.class);
        Object converted = convert.invoke(
                records, (byte) asked.get("magic").asInt(), asked.get("from_offset").asLong(), Time.SYSTEM);
        return ((MemoryRecords) converted.getClass().getMethod("records").invoke(converted)).buffer();
    }

    private static TimestampType type(int id) {
        for (TimestampType each : TimestampType.values())
            if (each.id == id)
                return each;
        throw new IllegalArgumentException("no such timestamp type");
    }

    private static byte[] bytes(JsonNode hex) {
        return hex == null || hex.isNull() ? null : HEX.parseHex(hex.asText());
    }

    private static ByteBuffer buffer(JsonNode hex) {
        return ByteBuffer.wrap(bytes(hex));
    }

    private static ByteBuffer wrap(byte[] bytes) {
        return bytes == null ? null : ByteBuffer.wrap(bytes);
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null)
            return null;
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HEX.formatHex(bytes);
    }
}
