import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** One line for each error code: code, name, whether it may be retried, whether metadata is out of date. */
public class ErrorOracle {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            Exception exception = error.exception();
            System.out.println(error.code() + " " + error.name() + " " + (exception instanceof RetriableException)
                + " " + (exception instanceof InvalidMetadataException));
        }
    }
}
