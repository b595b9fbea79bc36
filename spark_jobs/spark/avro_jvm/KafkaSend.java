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
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Rows to Kafka by Spark's sink, which makes a message of each: with the id that is made here of the row's place.
 *
 * Spark would take the id as a list of structs in each row, and copies a row before it makes a message of it.
 */
public final class KafkaSend {
    /** rows: key, value, headers, partition, position, part; may have topic and number. options: of Spark's sink. */
    public void send(Dataset rows, java.util.Map options, String id) {
        java.util.Map settings = KafkaSourceProvider$.MODULE$.kafkaParamsForProducer(
                CaseInsensitiveMap$.MODULE$.apply(PythonUtils.toScalaMap(options)));
        Seq columns = rows.queryExecution().analyzed().output();
        Option topic = Option.apply(options.get("topic"));
        rows.queryExecution().toRdd().foreachPartition(new Step(settings, columns, topic, new Places(rows.schema()), id));
    }

    /** Where columns are in a row, -1: they are not. */
    static final class Places implements Serializable {
        private static final long serialVersionUID = 1L;
        final int key, value, headers, partition, position, number, part, topic;

        Places(StructType type) {
            key = type.fieldIndex("key");
            value = type.fieldIndex("value");
            headers = type.fieldIndex("headers");
            partition = type.fieldIndex("partition");
            position = type.fieldIndex("position");
            part = type.fieldIndex("part");
            number = type.getFieldIndex("number").isEmpty() ? -1 : type.fieldIndex("number");
            topic = type.getFieldIndex("topic").isEmpty() ? -1 : type.fieldIndex("topic");
        }
    }

    /** What is done with each partition, as Spark's KafkaWriter does it. */
    static final class Step extends AbstractFunction1 implements Serializable {
        private static final long serialVersionUID = 1L;
        private final java.util.Map settings;
        private final Seq columns;
        private final Option topic;
        private final Places places;
        private final String id;

        Step(java.util.Map settings, Seq columns, Option topic, Places places, String id) {
            this.settings = settings;
            this.columns = columns;
            this.topic = topic;
            this.places = places;
            this.id = id;
        }

        public Object apply(Object rows) {
            Task task = new Task(settings, columns, topic, places, id);
            try {
                task.execute((Iterator) rows);
            } catch (Throwable error) {
                try {
                    task.close();
                } catch (Throwable other) {
                    error.addSuppressed(other);
                }
                Platform.throwException(error);
            }
            task.close();
            return BoxedUnit.UNIT;
        }
    }

    static final class Task extends KafkaWriteTask implements Callback {
        private static final int OFFSET_BITS = 48; // of a position (spark_jobs/spark/frames.py)

        private final Places at;
        private final String fixed, id;
        private final StringBuilder text = new StringBuilder(40);

        Task(java.util.Map settings, Seq columns, Option topic, Places places, String id) {
            super(settings, columns, topic);
            this.at = places;
            this.fixed = topic.isEmpty() ? null : (String) topic.get();
            this.id = id;
        }

        public void onCompletion(RecordMetadata sent, Exception error) {
            if (failedWrite() == null && error != null) {
                failedWrite_$eq(error);
            }
        }

        public void sendRow(InternalRow row, KafkaProducer producer) {
            if (fixed == null && row.isNullAt(at.topic)) {
                super.sendRow(row, producer); // which refuses it
                return;
            }
            String topic = fixed == null ? row.getUTF8String(at.topic).toString() : fixed;
            Integer partition = row.isNullAt(at.partition) ? null : Integer.valueOf(row.getInt(at.partition));
            byte[] key = row.isNullAt(at.key) ? null : row.getBinary(at.key);
            byte[] value = row.isNullAt(at.value) ? null : row.getBinary(at.value);
            producer.send(new ProducerRecord(topic, partition, null, key, value, headers(row)), this);
        }

        /** The message's own headers, and its id after them. */
        private ArrayList headers(InternalRow row) {
            ArrayData own = row.isNullAt(at.headers) ? null : row.getArray(at.headers);
            int count = own == null ? 0 : own.numElements();
            ArrayList all = new ArrayList(count + 1);
            for (int n = 0; n < count; n++) {
                InternalRow one = own.getStruct(n, 2);
                all.add(new RecordHeader(one.getUTF8String(0).toString(), one.isNullAt(1) ? null : one.getBinary(1)));
            }
            long position = row.getLong(at.position);
            text.setLength(0);
            text.append(position >>> OFFSET_BITS).append('/').append(position & (1L << OFFSET_BITS) - 1).append('/');
            text.append(at.number < 0 ? 0 : row.getInt(at.number)).append('/').append(row.getInt(at.part));
            all.add(new RecordHeader(id, text.toString().getBytes(StandardCharsets.ISO_8859_1)));
            return all;
        }
    }
}
