import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.KafkaStream;
import kafka.consumer.Whitelist;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;
import org.apache.log4j.BasicConfigurator;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;

/**
 * Scala's high-level consumer as a program. Arguments: the number of streams, "topic:<name>" or "whitelist:<pattern>", and
 * properties as name=value. It prints "ready" when it has streams, then "<stream> <topic> <partition> <offset> <value>" for
 * each message. When standard input says so it shuts down, prints "left" and ends; when that closes it ends at once.
 */
public class ScalaConsumer {
    public static void main(String[] arguments) throws Exception {
        BasicConfigurator.configure(new org.apache.log4j.ConsoleAppender(
            new org.apache.log4j.PatternLayout("%d %m%n"), org.apache.log4j.ConsoleAppender.SYSTEM_ERR));
        Logger.getRootLogger().setLevel(Level.WARN);
        Logger.getLogger("kafka.consumer").setLevel(Level.INFO);
        int count = Integer.parseInt(arguments[0]);
        Properties properties = new Properties();
        for (int index = 2; index < arguments.length; index++) {
            String[] parts = arguments[index].split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(properties));
        Thread obedience = new Thread(() -> obey(connector));
        obedience.setDaemon(true);
        obedience.start();
        List<Thread> threads = new ArrayList<>();
        int number = 0;
        List<KafkaStream<byte[], byte[]>> streams = streams(connector, arguments[1], count);
        tell("ready");
        for (KafkaStream<byte[], byte[]> stream : streams) {
            int name = number++;
            Thread thread = new Thread(() -> read(name, stream));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        obedience.join();
        tell("left");
        System.exit(0);
    }

    private static List<KafkaStream<byte[], byte[]>> streams(ConsumerConnector connector, String what, int count) {
        String[] parts = what.split(":", 2);
        if (parts[0].equals("whitelist")) {
            return connector.createMessageStreamsByFilter(new Whitelist(parts[1]), count);
        }
        Map<String, Integer> counts = new HashMap<>();
        counts.put(parts[1], count);
        return connector.createMessageStreams(counts).get(parts[1]);
    }

    private static void read(int number, KafkaStream<byte[], byte[]> stream) {
        ConsumerIterator<byte[], byte[]> messages = stream.iterator();
        while (messages.hasNext()) {
            MessageAndMetadata<byte[], byte[]> message = messages.next();
            tell(number + " " + message.topic() + " " + message.partition() + " " + message.offset() + " "
                + (message.message() == null ? "" : new String(message.message())));
        }
    }

    private static void obey(ConsumerConnector connector) {
        try {
            if (new BufferedReader(new InputStreamReader(System.in)).readLine() == null) {
                Runtime.getRuntime().halt(1);
            }
            connector.shutdown();
        } catch (java.io.IOException error) {
            Runtime.getRuntime().halt(1);
        }
    }

    private static synchronized void tell(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
