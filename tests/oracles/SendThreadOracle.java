import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import kafka.common.QueueFullException;
import kafka.producer.KeyedMessage;
import kafka.producer.Producer;
import kafka.producer.ProducerClosedException;
import kafka.producer.ProducerConfig;
import kafka.producer.async.EventHandler;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import scala.collection.JavaConversions;
import scala.collection.Seq;

/**
 * What an asynchronous producer of Kafka 0.8 does with a script. Each line that it reads is a script: settings and steps,
 * separated by a tab. Settings are "name=value", separated by spaces. Steps are separated by semicolons:
 *
 * send a b: send the messages a and b with one call; later a b: the same in another thread; join: wait for that thread;
 * hold: let the event handler stop in its next call; release: let it go on; release in n: do that n milliseconds later;
 * fail: let it throw from now on;
 * handled n: wait until it has been called n times; pause n: sleep n milliseconds; close.
 *
 * It writes one line for each: what the calls of the program came to, a tab, and the calls of the event handler.
 */
public class SendThreadOracle {
    private static final long PATIENCE = 20;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Logger.getRootLogger().setLevel(Level.OFF);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            out.println(played(parts[0], parts[1]));
            out.flush();
        }
        System.exit(0);
    }

    private static String played(String settings, String steps) throws Exception {
        Recorder recorder = new Recorder();
        Producer<String, String> producer;
        try {
            producer = new Producer<>(config(settings), recorder);
        } catch (RuntimeException failure) {
            return failure.getClass().getSimpleName() + "\t";
        }
        List<String> calls = new ArrayList<>();
        String[] later = new String[1];
        Thread thread = null;
        for (String step : steps.split(";")) {
            String[] words = step.trim().split(" ");
            List<String> rest = Arrays.asList(words).subList(1, words.length);
            switch (words[0]) {
                case "send":
                    calls.add(sent(producer, rest));
                    break;
                case "later":
                    thread = new Thread(() -> later[0] = sent(producer, rest));
                    thread.start();
                    break;
                case "join":
                    thread.join(PATIENCE * 1000);
                    calls.add("later " + later[0]);
                    break;
                case "hold":
                    recorder.gate = new CountDownLatch(1);
                    break;
                case "release":
                    CountDownLatch gate = recorder.gate;
                    if (rest.isEmpty()) {
                        gate.countDown();
                    } else {
                        new Timer(true).schedule(new TimerTask() {
                            @Override
                            public void run() {
                                gate.countDown();
                            }
                        }, Long.parseLong(rest.get(1)));
                    }
                    break;
                case "fail":
                    recorder.fails = true;
                    break;
                case "handled":
                    recorder.await(Integer.parseInt(words[1]));
                    break;
                case "pause":
                    Thread.sleep(Long.parseLong(words[1]));
                    break;
                case "close":
                    producer.close();
                    calls.add("closed after " + recorder.calls().size());
                    break;
                default:
                    throw new IllegalArgumentException(step);
            }
        }
        producer.close();
        return String.join("; ", calls) + "\t" + String.join("; ", recorder.calls());
    }

    private static ProducerConfig config(String settings) {
        Properties properties = new Properties();
        properties.put("metadata.broker.list", "127.0.0.1:1");
        properties.put("serializer.class", "kafka.serializer.StringEncoder");
        properties.put("producer.type", "async");
        for (String setting : settings.split(" ")) {
            String[] pair = setting.split("=");
            properties.put(pair[0], pair[1]);
        }
        return new ProducerConfig(properties);
    }

    /** "sent", "full" or "closed"; with "waited" if the call took at least a second. */
    private static String sent(Producer<String, String> producer, List<String> values) {
        List<KeyedMessage<String, String>> messages = new ArrayList<>();
        for (String value : values) {
            messages.add(new KeyedMessage<>("topic", value));
        }
        long began = System.nanoTime();
        String outcome = "sent";
        try {
            producer.send(JavaConversions.asScalaBuffer(messages));
        } catch (QueueFullException failure) {
            outcome = "full";
        } catch (ProducerClosedException failure) {
            outcome = "closed";
        }
        return outcome + (System.nanoTime() - began >= 1_000_000_000L ? " waited" : "");
    }

    private static class Recorder implements EventHandler<String, String> {
        private final List<String> calls = new ArrayList<>();
        volatile CountDownLatch gate = new CountDownLatch(0);
        volatile boolean fails;

        @Override
        public void handle(Seq<KeyedMessage<String, String>> messages) {
            StringBuilder call = new StringBuilder("handle");
            for (KeyedMessage<String, String> message : JavaConversions.seqAsJavaList(messages)) {
                call.append(' ').append(message.message());
            }
            CountDownLatch before = gate;
            add(call.toString());
            try {
                before.await(PATIENCE, TimeUnit.SECONDS);
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
            if (fails) {
                throw new IllegalStateException("the script says so");
            }
        }

        @Override
        public void close() {
            add("close");
        }

        synchronized List<String> calls() {
            return new ArrayList<>(calls);
        }

        private synchronized void add(String call) {
            calls.add(call);
            notifyAll();
        }

        synchronized void await(int count) throws InterruptedException {
            long deadline = System.nanoTime() + PATIENCE * 1_000_000_000L;
            while (calls.size() < count && System.nanoTime() < deadline) {
                wait(100);
            }
        }
    }
}
