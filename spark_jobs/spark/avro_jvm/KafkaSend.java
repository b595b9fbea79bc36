package ticdcbridge;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;

import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.kafka010.KafkaSourceProvider$;
import org.apache.spark.sql.kafka010.KafkaWriteTask;
import org.apache.spark.unsafe.Platform;

import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Rows to Kafka by Spark's sink, which makes a message of each: with the id that is made here of the row's position.
 *
 * Spark would take the id as a list of structs in each row, and copies a row before it makes a message of it.
 */
public final class KafkaSend extends AbstractFunction1 implements Serializable {
    private static final long serialVersionUID = 1L;
    /** The columns, as spark_jobs/spark/avro_jvm/__init__.py selects them. */
    private static final int KEY = 0, VALUE = 1, HEADERS = 2, PARTITION = 3, POSITION = 4, NUMBER = 5, PART = 6;
    private static final int TOPIC = 7; // not there where the options name one
    private static final int OFFSET_BITS = 48; // of a position (spark_jobs/spark/frames.py)

    private java.util.Map settings;
    private Seq columns;
    private Option topic;
    private String id;

    /** options: of Spark's sink. id: the header. */
    public void send(Dataset rows, java.util.Map options, String id) {
        settings = KafkaSourceProvider$.MODULE$.kafkaParamsForProducer(
                CaseInsensitiveMap$.MODULE$.apply(PythonUtils.toScalaMap(options)));
        columns = rows.queryExecution().analyzed().output();
        topic = Option.apply(options.get("topic"));
        this.id = id;
        rows.queryExecution().toRdd().foreachPartition(this);
    }

    /** What is done with the rows of each partition, as Spark's KafkaWriter does it. */
    public Object apply(Object rows) {
        Task task = new Task(this);
        try {
            task.execute((Iterator) rows);
        } catch (Throwable error) { // not hidden by what closing says
            try {
                task.close();
            } catch (Throwable second) {
                error.addSuppressed(second);
            }
            Platform.throwException(error);
        }
        task.close();
        return BoxedUnit.UNIT;
    }

    private static final class Task extends KafkaWriteTask implements Callback {
        private final String fixed, id;
        private final StringBuilder text = new StringBuilder(40);

        Task(KafkaSend of) {
            super(of.settings, of.columns, of.topic);
            fixed = of.topic.isEmpty() ? null : (String) of.topic.get();
            id = of.id;
        }

        public void onCompletion(RecordMetadata sent, Exception error) {
            if (failedWrite() == null && error != null) {
                failedWrite_$eq(error);
            }
        }

        public void sendRow(InternalRow row, KafkaProducer producer) {
            if (fixed == null && row.isNullAt(TOPIC)) {
                super.sendRow(row, producer); // which refuses it
                return;
            }
            String topic = fixed == null ? row.getUTF8String(TOPIC).toString() : fixed;
            Integer partition = row.isNullAt(PARTITION) ? null : Integer.valueOf(row.getInt(PARTITION));
            byte[] key = row.isNullAt(KEY) ? null : row.getBinary(KEY);
            byte[] value = row.isNullAt(VALUE) ? null : row.getBinary(VALUE);
            producer.send(new ProducerRecord(topic, partition, null, key, value, headers(row)), this);
        }

        /** The message's headers, and its id after them. */
        private ArrayList headers(InternalRow row) {
            ArrayData headers = row.isNullAt(HEADERS) ? null : row.getArray(HEADERS);
            int count = headers == null ? 0 : headers.numElements();
            ArrayList all = new ArrayList(count + 1);
            for (int n = 0; n < count; n++) {
                InternalRow header = headers.getStruct(n, 2);
                byte[] value = header.isNullAt(1) ? null : header.getBinary(1);
                all.add(new RecordHeader(header.getUTF8String(0).toString(), value));
            }
            long position = row.getLong(POSITION);
            text.setLength(0);
            text.append(position >>> OFFSET_BITS).append('/').append(position & (1L << OFFSET_BITS) - 1).append('/');
            text.append(row.getInt(NUMBER)).append('/').append(row.getInt(PART));
            all.add(new RecordHeader(id, text.toString().getBytes(StandardCharsets.ISO_8859_1)));
            return all;
        }
    }
}
