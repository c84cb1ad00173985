import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import kafka.consumer.ConsumerConfig;
import kafka.message.CompressionCodec;
import kafka.producer.ProducerConfig;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import scala.collection.Seq;

/**
 * What Scala's clients make of properties. Each line that it reads is "consumer" or "producer", the names of getters with
 * commas between them, and properties as key=value, separated by tabs. It writes one line for each: the values that the
 * getters return, separated by tabs; or "error" and the name of the exception.
 */
public class PropertiesOracle {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Logger.getRootLogger().setLevel(Level.OFF);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(values(line.split("\t", -1)));
            out.flush();
        }
    }

    private static String values(String[] parts) throws Exception {
        Properties properties = new Properties();
        for (int index = 2; index < parts.length; index++) {
            String[] pair = parts[index].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        Object config;
        try {
            config = parts[0].equals("consumer") ? new ConsumerConfig(properties) : new ProducerConfig(properties);
        } catch (Exception error) {
            return "error\t" + error.getClass().getSimpleName();
        }
        StringBuilder answer = new StringBuilder("values");
        for (String getter : parts[1].split(",")) {
            answer.append("\t").append(shown(config.getClass().getMethod(getter).invoke(config)));
        }
        return answer.toString();
    }

    private static String shown(Object value) {
        if (value instanceof CompressionCodec) {
            return ((CompressionCodec) value).name();
        }
        return value instanceof Seq ? ((Seq<?>) value).mkString(",") : String.valueOf(value);
    }
}
