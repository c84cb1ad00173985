import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * What Java's consumer reads. Each line is "bootstrap topic partition start isolation bytes": the isolation level, and the
 * most bytes of a fetch. It writes one line: the offset at which reading ends, and offset=key:value of each record from the
 * start to that end, in hex, where "-" stands for null.
 */
public class ConsumerOracle {
    private static final long PATIENCE_MS = 60_000;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = read(line.split(" "));
            } catch (Exception e) {
                answer = ("! " + e).replace('\n', ' ');
            }
            out.println(answer);
            out.flush();
        }
        System.exit(0);
    }

    private static String read(String[] words) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", words[0]);
        properties.put("isolation.level", words[4]);
        properties.put("max.partition.fetch.bytes", words[5]);
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        TopicPartition where = new TopicPartition(words[1], Integer.parseInt(words[2]));
        StringBuilder found = new StringBuilder();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            consumer.assign(Collections.singletonList(where));
            long end = consumer.endOffsets(Collections.singletonList(where)).get(where);
            consumer.seek(where, Long.parseLong(words[3]));
            found.append(end);
            long deadline = System.currentTimeMillis() + PATIENCE_MS;
            while (consumer.position(where) < end) {
                if (System.currentTimeMillis() > deadline) {
                    return "! the position is still " + consumer.position(where) + " and the end is " + end;
                }
                for (ConsumerRecord<byte[], byte[]> record : poll(consumer)) {
                    if (record.offset() < end) {
                        found.append(' ').append(record.offset()).append('=');
                        found.append(hex(record.key())).append(':').append(hex(record.value()));
                    }
                }
            }
        }
        return found.toString();
    }

    /** Calls poll(Duration), or poll(long) of the consumers before 2.0. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        Method poll;
        try {
            poll = KafkaConsumer.class.getMethod("poll", java.time.Duration.class);
        } catch (NoSuchMethodException e) {
            poll = KafkaConsumer.class.getMethod("poll", long.class);
            return (ConsumerRecords<byte[], byte[]>) poll.invoke(consumer, 200L);
        }
        return (ConsumerRecords<byte[], byte[]>) poll.invoke(consumer, java.time.Duration.ofMillis(200));
    }

    private static String hex(byte[] bytes) {
        if (bytes == null) {
            return "-";
        }
        StringBuilder text = new StringBuilder();
        for (byte each : bytes) {
            text.append(String.format("%02x", each));
        }
        return text.toString();
    }
}
