import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import kafka.consumer.Blacklist;
import kafka.consumer.TopicFilter;
import kafka.consumer.Whitelist;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;

/**
 * What the topic filters of Scala's high-level consumer select. Each line that it reads is "whitelist" or "blacklist",
 * "true" to exclude internal topics, a pattern, and topics, separated by tabs. It writes one line for each: the cleaned
 * pattern and the topics that are allowed, separated by tabs; or a line without a tab if the pattern is not valid.
 */
public class TopicFilterOracle {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Logger.getRootLogger().setLevel(Level.OFF);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(allowed(line.split("\t", -1)));
            out.flush();
        }
    }

    private static String allowed(String[] parts) {
        TopicFilter filter;
        try {
            filter = parts[0].equals("whitelist") ? new Whitelist(parts[2]) : new Blacklist(parts[2]);
        } catch (RuntimeException invalid) {
            return "invalid";
        }
        StringBuilder answer = new StringBuilder(filter.regex() + "\t");
        for (int index = 3; index < parts.length; index++) {
            if (filter.isTopicAllowed(parts[index], Boolean.parseBoolean(parts[1]))) {
                answer.append("\t").append(parts[index]);
            }
        }
        return answer.toString();
    }
}
