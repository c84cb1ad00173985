import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import kafka.api.ProducerRequest;
import kafka.api.ProducerResponse;
import kafka.api.ProducerResponseStatus;
import kafka.api.TopicMetadata;
import kafka.common.TopicAndPartition;
import kafka.message.ByteBufferMessageSet;
import kafka.message.Message;
import kafka.message.NoCompressionCodec$;
import kafka.producer.ByteArrayPartitioner;
import kafka.producer.DefaultPartitioner;
import kafka.producer.KeyedMessage;
import kafka.producer.Partitioner;
import kafka.producer.ProducerConfig;
import kafka.producer.ProducerPool;
import kafka.producer.SyncProducer;
import kafka.producer.SyncProducerConfig;
import kafka.producer.async.DefaultEventHandler;
import kafka.serializer.Encoder;
import kafka.utils.VerifiableProperties;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import scala.collection.JavaConversions;

/**
 * What Scala's DefaultEventHandler, SyncProducer and partitioners do. Each line that it reads is one of these, with
 * tabs between the parts; it writes one line for each:
 * "partition", "default" or "bytes", a key in UTF-8 as hexadecimal digits, a count of partitions: the partition.
 * "sync", a port, acks, a topic, a partition, messages: the error code and the offset, or "null".
 * "handle", properties, a partitioner ("default", "crash" or a number), and batches of messages: "ok", or the name of
 * the exception, for each batch. A message is topic, key, partition key and value, with commas between them.
 */
public class EventHandlerOracle {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Logger.getRootLogger().setLevel(Level.OFF);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line.split("\t", -1)));
            out.flush();
        }
    }

    private static String answer(String[] parts) {
        return switch (parts[0]) {
            case "partition" -> partition(parts[1], HexFormat.of().parseHex(parts[2]), Integer.parseInt(parts[3]));
            case "sync" -> send(parts);
            default -> handle(parts);
        };
    }

    private static String partition(String kind, byte[] key, int count) {
        VerifiableProperties none = new VerifiableProperties(new Properties());
        return kind.equals("default")
                ? "" + new DefaultPartitioner(none).partition(new String(key, StandardCharsets.UTF_8), count)
                : "" + new ByteArrayPartitioner(none).partition(key, count);
    }

    private static String send(String[] parts) {
        Properties properties = new Properties();
        properties.put("host", "127.0.0.1");
        properties.put("port", parts[1]);
        SyncProducer producer = new SyncProducer(new SyncProducerConfig(properties));
        try {
            List<Message> messages = new ArrayList<>();
            for (String value : parts[5].split(",")) {
                messages.add(new Message(value.getBytes(StandardCharsets.UTF_8)));
            }
            scala.collection.mutable.HashMap<TopicAndPartition, ByteBufferMessageSet> data =
                    new scala.collection.mutable.HashMap<>();
            data.put(
                    new TopicAndPartition(parts[3], Integer.parseInt(parts[4])),
                    new ByteBufferMessageSet(NoCompressionCodec$.MODULE$, JavaConversions.asScalaBuffer(messages)));
            ProducerResponse response =
                    producer.send(new ProducerRequest(1, "", Short.parseShort(parts[2]), 1000, data));
            if (response == null) {
                return "null";
            }
            ProducerResponseStatus status = response.status().values().head();
            return status.error() + " " + status.offset();
        } finally {
            producer.close();
        }
    }

    private static String handle(String[] parts) {
        Properties properties = new Properties();
        for (String each : parts[1].split(";")) {
            properties.put(each.split("=")[0], each.split("=")[1]);
        }
        ProducerConfig config = new ProducerConfig(properties);
        DefaultEventHandler<String, String> handler = new DefaultEventHandler<>(
                config,
                partitioner(parts[2]),
                new FailingEncoder(),
                new FailingEncoder(),
                new ProducerPool(config),
                new scala.collection.mutable.HashMap<String, TopicMetadata>());
        List<String> outcomes = new ArrayList<>();
        for (String batch : Arrays.copyOfRange(parts, 3, parts.length)) {
            List<KeyedMessage<String, String>> messages = new ArrayList<>();
            for (String message : batch.split(" ")) {
                String[] fields = message.split(",", -1);
                messages.add(new KeyedMessage<>(fields[0], orNull(fields[1]), orNull(fields[2]), fields[3]));
            }
            try {
                handler.handle(JavaConversions.asScalaBuffer(messages));
                outcomes.add("ok");
            } catch (Throwable error) {
                outcomes.add(error.getClass().getSimpleName());
            }
        }
        handler.close();
        return String.join("\t", outcomes);
    }

    private static String orNull(String text) {
        return text.isEmpty() ? null : text;
    }

    private static Partitioner partitioner(String name) {
        if (name.equals("default")) {
            return new DefaultPartitioner(new VerifiableProperties(new Properties()));
        }
        return (key, count) -> {
            if (name.equals("crash")) {
                throw new IllegalStateException("the partitioner crashes");
            }
            return Integer.parseInt(name);
        };
    }

    /** Encodes text, and fails for the text "bad". */
    private static class FailingEncoder implements Encoder<String> {
        @Override
        public byte[] toBytes(String text) {
            if ("bad".equals(text)) {
                throw new IllegalArgumentException("the encoder fails");
            }
            return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
        }
    }
}
