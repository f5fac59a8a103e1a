// Count, sum and mean per key with Kafka Streams, exactly once: what `python -m bench kafka` compares keyfold with.
// Arguments: servers, topic, rows, threads. Prints the seconds from the start until all rows are committed.

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;

public final class KafkaStreamsTotals {
    private static final JsonFactory JSON = new JsonFactory();

    /** The state of a key; its mean is sum / count. */
    record Totals(long count, double sum) {
        Totals plus(double amount) {
            return new Totals(count + 1, sum + amount);
        }

        static final Serde<Totals> SERDE = Serdes.serdeFrom(
            (topic, totals) -> totals == null ? null
                : ByteBuffer.allocate(24).putLong(totals.count).putDouble(totals.sum)
                    .putDouble(totals.sum / totals.count).array(),
            (topic, bytes) -> {
                if (bytes == null) return null;
                ByteBuffer buffer = ByteBuffer.wrap(bytes);
                return new Totals(buffer.getLong(), buffer.getDouble());
            });
    }

    static double amount(byte[] value) {
        try (JsonParser parser = JSON.createParser(value)) {
            while (parser.nextToken() != null) {
                if (parser.currentToken() == JsonToken.FIELD_NAME && parser.currentName().equals("amount")) {
                    parser.nextToken();
                    return parser.getDoubleValue();
                }
            }
            throw new IllegalArgumentException("no amount");
        } catch (IOException e) {
            throw new IllegalArgumentException(e);
        }
    }

    public static void main(String[] args) throws Exception {
        String servers = args[0], topic = args[1], application = "totals-" + System.nanoTime();
        long rows = Long.parseLong(args[2]);
        var state = Files.createTempDirectory("kafka-streams-");
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Integer.parseInt(args[3]));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(topic, Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .groupByKey()
            .aggregate(() -> new Totals(0, 0.0), (key, value, totals) -> totals.plus(amount(value)),
                Materialized.<String, Totals, KeyValueStore<Bytes, byte[]>>as("totals")
                    .withKeySerde(Serdes.String()).withValueSerde(Totals.SERDE));
        long begun = System.nanoTime();
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings);
             Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", servers))) {
            streams.setUncaughtExceptionHandler(error -> {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
                return null;
            });
            streams.start();
            while (committed(admin, application) < rows) Thread.sleep(50);
            System.out.printf("%.3f%n", (System.nanoTime() - begun) / 1e9);
            streams.close();
            streams.cleanUp();
        }
    }

    static long committed(Admin admin, String application) throws Exception {
        Map<?, OffsetAndMetadata> found =
            admin.listConsumerGroupOffsets(application).partitionsToOffsetAndMetadata().get();
        return found.values().stream().filter(o -> o != null).mapToLong(OffsetAndMetadata::offset).sum();
    }
}
