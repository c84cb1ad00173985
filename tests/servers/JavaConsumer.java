import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Java's consumer as a program. Arguments: the topic, and properties as name=value. It prints "<partition> <offset>" for
 * each record. When standard input says so it leaves its group and ends; when that closes it ends at once.
 */
public class JavaConsumer {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        for (int index = 1; index < arguments.length; index++) {
            String[] parts = arguments[index].split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        AtomicBoolean leaving = new AtomicBoolean();
        Thread obedience = new Thread(() -> obey(leaving));
        obedience.setDaemon(true);
        obedience.start();
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(arguments[0]));
            while (!leaving.get()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    System.out.println(record.partition() + " " + record.offset());
                }
                System.out.flush();
            }
        }
        System.exit(0);
    }

    private static void obey(AtomicBoolean leaving) {
        try {
            if (System.in.read() < 0) {
                Runtime.getRuntime().halt(1);
            }
            leaving.set(true);
        } catch (java.io.IOException error) {
            Runtime.getRuntime().halt(1);
        }
    }
}
