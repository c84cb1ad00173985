import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ProtoUtils;

/** Prints "<API key> <latest version>" for each request that the clients of Kafka 0.8.2 and 0.9 define. */
public class SupportedVersions {
    public static void main(String[] arguments) {
        for (ApiKeys key : ApiKeys.values()) {
            try {
                System.out.println(key.id + " " + ProtoUtils.latestVersion(key.id));
            } catch (RuntimeException notForClients) {
                System.err.println(key);
            }
        }
    }
}
