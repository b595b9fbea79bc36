package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"

	"github.com/twmb/franz-go/pkg/sr"
)

// Package sr writes and reads the header of a message and leaves the payload to its caller; so the payloads are small:
// a record of a long and an optional string, the same as JSON, a message of one uint32.

type order struct {
	ID   int64   `json:"id"`
	Note *string `json:"note"`
}

type ride struct {
	KM uint64 `json:"km"`
}

var errShort = errors.New("the payload is too short")

func encodeAvro(value any) ([]byte, error) {
	one := value.(order)
	payload := binary.AppendVarint(nil, one.ID) // Go's varints are zigzag, as Avro's are
	if one.Note == nil {
		return binary.AppendVarint(payload, 0), nil
	}
	payload = binary.AppendVarint(payload, 1)
	payload = binary.AppendVarint(payload, int64(len(*one.Note)))
	return append(payload, *one.Note...), nil
}

func decodeAvro(payload []byte, into any) error {
	one := into.(*order)
	var numbers [3]int64 // the id, the branch, the length
	for i := range numbers {
		value, size := binary.Varint(payload)
		if size <= 0 {
			return errShort
		}
		numbers[i], payload = value, payload[size:]
		if i == 1 && value == 0 {
			*one = order{ID: numbers[0]}
			return nil
		}
	}
	if int64(len(payload)) != numbers[2] {
		return errShort
	}
	note := string(payload)
	*one = order{ID: numbers[0], Note: &note}
	return nil
}

func encodeProtobuf(value any) ([]byte, error) {
	return binary.AppendUvarint([]byte{1 << 3}, value.(ride).KM), nil
}

func decodeProtobuf(payload []byte, into any) error {
	if len(payload) < 2 || payload[0] != 1<<3 {
		return errShort
	}
	value, size := binary.Uvarint(payload[1:])
	if size != len(payload)-1 {
		return errShort
	}
	into.(*ride).KM = value
	return nil
}

// serdes writes a value in each format, reads it again, and reads what Python wrote.
func (r *run) serdes() {
	note := "中文"
	one := order{ID: 1<<62 + 1, Note: &note}
	// The ride is the second message of its file, so that the message indexes are more than a bare zero.
	formats := []struct {
		name    string
		schema  sr.Schema
		value   any
		options []sr.EncodingOpt
	}{
		{"avro", sr.Schema{Schema: r.job.Order}, one, []sr.EncodingOpt{
			sr.EncodeFn(encodeAvro), sr.DecodeFn(decodeAvro)}},
		{"json", sr.Schema{Schema: r.job.JSON, Type: sr.TypeJSON}, one, []sr.EncodingOpt{
			sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal)}},
		{"protobuf", sr.Schema{Schema: r.job.Ride, Type: sr.TypeProtobuf}, ride{KM: 1 << 31}, []sr.EncodingOpt{
			sr.EncodeFn(encodeProtobuf), sr.DecodeFn(decodeProtobuf), sr.Index(1)}},
	}
	messages, own, written := map[string][]byte{}, map[string]any{}, map[string]any{}
	for _, format := range formats {
		id := must(r.cl.CreateSchema(r.ctx, "go-"+format.name+"-value", format.schema)).ID
		var serde sr.Serde
		serde.Register(id, format.value, format.options...)
		messages[format.name] = must(serde.Encode(format.value))
		own[format.name] = must(serde.DecodeNew(messages[format.name]))
		// What Python wrote has the id of the same text under Python's subject.
		pythons, _, err := serde.DecodeID(r.job.Written[format.name])
		must(pythons, err)
		serde.Register(pythons, format.value, format.options...)
		written[format.name] = must(serde.DecodeNew(r.job.Written[format.name]))
	}
	r.seen["messages"], r.seen["own"], r.seen["written"] = messages, own, written
}
