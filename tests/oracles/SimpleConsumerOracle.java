import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import kafka.api.ConsumerMetadataRequest;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.cluster.Broker;
import kafka.common.ErrorMapping;
import kafka.common.OffsetAndMetadata;
import kafka.common.OffsetMetadataAndError;
import kafka.common.TopicAndPartition;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetCommitRequest;
import kafka.javaapi.OffsetFetchRequest;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.OffsetResponse;
import kafka.javaapi.PartitionMetadata;
import kafka.javaapi.TopicMetadata;
import kafka.javaapi.TopicMetadataRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.message.MessageAndOffset;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;

/**
 * What Scala's SimpleConsumer gets from a broker. The first line that it reads is "connect host port". Each other line is a
 * call, and it writes one line with the result:
 *
 * fetch topic:partition:offset:size ...: one request; before topic partition time most; edge topic partition time;
 * commit version group topic partition offset metadata; offsets version group topic partition ...; coordinator group;
 * metadata topic.
 */
public class SimpleConsumerOracle {
    private static final String CLIENT = "oracle";
    private static SimpleConsumer consumer;
    private static kafka.consumer.SimpleConsumer scala;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Logger.getRootLogger().setLevel(Level.OFF);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line.split(" ")));
            out.flush();
        }
        System.exit(0);
    }

    private static String answer(String[] words) {
        switch (words[0]) {
            case "connect":
                consumer = new SimpleConsumer(words[1], Integer.parseInt(words[2]), 10000, 65536, CLIENT);
                scala = new kafka.consumer.SimpleConsumer(words[1], Integer.parseInt(words[2]), 10000, 65536, CLIENT);
                return "connected";
            case "fetch":
                return fetched(Arrays.asList(words).subList(1, words.length));
            case "before":
                return before(words[1], Integer.parseInt(words[2]), Long.parseLong(words[3]), Integer.parseInt(words[4]));
            case "edge":
                return edge(new TopicAndPartition(words[1], Integer.parseInt(words[2])), Long.parseLong(words[3]));
            case "commit":
                return committed(words);
            case "offsets":
                return offsets(words);
            case "coordinator":
                kafka.api.ConsumerMetadataResponse found =
                    scala.send(new ConsumerMetadataRequest(words[1], (short) 0, 1, CLIENT));
                return found.errorCode() + " " + (found.errorCode() == 0 ? name(found.coordinatorOpt().get()) : "-");
            case "metadata":
                return metadata(words[1]);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static String fetched(List<String> wanted) {
        FetchRequestBuilder builder = new FetchRequestBuilder().clientId(CLIENT).maxWait(100).minBytes(1);
        Map<String, String[]> partitions = new TreeMap<>();
        for (String each : wanted) {
            String[] parts = each.split(":");
            builder.addFetch(parts[0], Integer.parseInt(parts[1]), Long.parseLong(parts[2]), Integer.parseInt(parts[3]));
            partitions.put(parts[0] + "-" + parts[1], parts);
        }
        FetchResponse response = consumer.fetch(builder.build());
        StringBuilder text = new StringBuilder(response.hasError() ? "error" : "ok");
        partitions.forEach((name, parts) -> {
            int partition = Integer.parseInt(parts[1]);
            text.append("; ").append(name).append(" ").append(response.errorCode(parts[0], partition)).append(" ")
                .append(response.highWatermark(parts[0], partition));
            for (MessageAndOffset each : response.messageSet(parts[0], partition)) {
                text.append(" ").append(each.offset()).append("=").append(text(each.message().key())).append(":")
                    .append(text(each.message().payload()));
            }
        });
        return text.toString();
    }

    private static String before(String topic, int partition, long time, int most) {
        Map<TopicAndPartition, PartitionOffsetRequestInfo> wanted = Collections.singletonMap(
            new TopicAndPartition(topic, partition), new PartitionOffsetRequestInfo(time, most));
        OffsetResponse response = consumer.getOffsetsBefore(new OffsetRequest(wanted, (short) 0, CLIENT));
        int code = response.errorCode(topic, partition);
        return code == 0 ? Arrays.toString(response.offsets(topic, partition)) : String.valueOf(code);
    }

    @SuppressWarnings("unchecked")
    private static String edge(TopicAndPartition partition, long time) {
        try {
            return "[" + scala.earliestOrLatestOffset(partition, time, -1) + "]";
        } catch (Throwable error) { // Scala's exceptions are not declared
            return String.valueOf(ErrorMapping.codeFor((Class<Throwable>) error.getClass()));
        }
    }

    private static String committed(String[] words) {
        TopicAndPartition partition = new TopicAndPartition(words[3], Integer.parseInt(words[4]));
        Map<TopicAndPartition, OffsetAndMetadata> positions = new LinkedHashMap<>();
        positions.put(partition, new OffsetAndMetadata(Long.parseLong(words[5]), words[6], -1L));
        short version = Short.parseShort(words[1]);
        return "" + consumer.commitOffsets(new OffsetCommitRequest(words[2], positions, 1, CLIENT, version))
            .errorCode(partition);
    }

    private static String offsets(String[] words) {
        List<TopicAndPartition> partitions = new ArrayList<>();
        for (int index = 4; index < words.length; index++) {
            partitions.add(new TopicAndPartition(words[3], Integer.parseInt(words[index])));
        }
        Map<TopicAndPartition, OffsetMetadataAndError> found = consumer.fetchOffsets(
            new OffsetFetchRequest(words[2], partitions, Short.parseShort(words[1]), 1, CLIENT)).offsets();
        List<String> text = new ArrayList<>();
        for (TopicAndPartition each : partitions) {
            OffsetMetadataAndError one = found.get(each);
            boolean none = one.offset() < 0 && (one.error() == 0 || one.error() == 3); // version 0 says 3
            text.add(none ? "none" : one.error() != 0 ? "" + one.error() : one.offset() + ":" + one.metadata());
        }
        return String.join(" ", text);
    }

    private static String metadata(String topic) {
        Map<Integer, String> found = new TreeMap<>();
        String code = "";
        for (TopicMetadata each : consumer.send(new TopicMetadataRequest(Collections.singletonList(topic)))
            .topicsMetadata()) {
            code = each.topic() + " " + each.errorCode();
            for (PartitionMetadata one : each.partitionsMetadata()) {
                found.put(one.partitionId(), one.partitionId() + " " + one.errorCode() + " "
                    + (one.leader() == null ? "-" : name(one.leader())) + " " + ids(one.replicas()) + " " + ids(one.isr()));
            }
        }
        return code + "; " + String.join("; ", found.values());
    }

    private static List<Integer> ids(List<Broker> brokers) {
        List<Integer> found = new ArrayList<>();
        brokers.forEach(each -> found.add(each.id()));
        return found;
    }

    private static String name(Broker broker) {
        return broker.id() + "@" + broker.host() + ":" + broker.port();
    }

    private static String text(ByteBuffer bytes) {
        return bytes == null ? "null" : StandardCharsets.UTF_8.decode(bytes).toString();
    }
}
