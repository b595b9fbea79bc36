// The sr client of franz-go against the registry whose URL is the argument.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"

	"github.com/twmb/franz-go/pkg/sr"
)

const (
	order  = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"}]}`
	wider  = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},{"name":"note","type":["null","string"],"default":null}]}`
	broken = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"string"}]}`
	line   = `{"type":"record","name":"Line","namespace":"shop","fields":[{"name":"order","type":"Order"}]}`
	proto  = "syntax = \"proto3\";\npackage shop;\n\nmessage Stop {\n  int64 id = 1;\n}\n"
)

func check[T any](what string, got T, err error, want T) {
	if err != nil || !reflect.DeepEqual(got, want) {
		fmt.Fprintf(os.Stderr, "%s: got %v (%v), expected %v\n", what, got, err, want)
		os.Exit(1)
	}
}

func status(err error) int {
	var refused *sr.ResponseError
	if errors.As(err, &refused) {
		return refused.StatusCode
	}
	return 0
}

func main() {
	ctx := context.Background()
	client, err := sr.NewClient(sr.URLs(os.Args[1]))
	check("client", true, err, true)

	types, err := client.SupportedTypes(ctx)
	check("types", len(types), err, 3)
	first, err := client.CreateSchema(ctx, "orders", sr.Schema{Schema: order})
	check("create", first.Version, err, 1)
	again, err := client.CreateSchema(ctx, "orders", sr.Schema{Schema: order})
	check("create again", again.ID, err, first.ID)
	found, err := client.LookupSchema(ctx, "orders", sr.Schema{Schema: order})
	check("look up", found.Version, err, 1)
	second, err := client.CreateSchema(ctx, "orders", sr.Schema{Schema: wider})
	check("a second version", second.Version, err, 2)
	_, err = client.CreateSchema(ctx, "orders", sr.Schema{Schema: broken})
	check("an incompatible schema", status(err), nil, 409)
	verdict, err := client.CheckCompatibility(ctx, "orders", -1, sr.Schema{Schema: broken})
	check("compatibility", verdict.Is, err, false)
	text, err := client.SchemaTextByID(ctx, first.ID)
	check("text by id", text, err, order)
	latest, err := client.SchemaByVersion(ctx, "orders", -1)
	check("latest", latest.Schema.Schema, err, wider)
	versions, err := client.SubjectVersions(ctx, "orders")
	check("versions", versions, err, []int{1, 2})
	holders, err := client.SubjectsByID(ctx, second.ID)
	check("subjects by id", holders, err, []string{"orders"})

	lines := sr.Schema{Schema: line, References: []sr.SchemaReference{{Name: "shop.Order", Subject: "orders", Version: 2}}}
	referring, err := client.CreateSchema(ctx, "lines", lines)
	check("a schema with a reference", referring.Version, err, 1)
	users, err := client.SchemaReferences(ctx, "orders", 2)
	check("referenced by", len(users), err, 1)
	stops, err := client.CreateSchema(ctx, "stops", sr.Schema{Schema: proto, Type: sr.TypeProtobuf})
	check("protobuf", stops.Schema.Schema, err, proto)

	levels := client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, "orders")
	check("set compatibility", levels[0].Level, levels[0].Err, sr.CompatFull)
	levels = client.Compatibility(ctx, "orders", "lines")
	check("own compatibility", levels[0].Level, levels[0].Err, sr.CompatFull)
	modes := client.SetMode(ctx, sr.ModeReadOnly, "stops")
	check("set mode", modes[0].Err, nil, error(nil))
	_, err = client.CreateSchema(ctx, "stops", sr.Schema{Schema: proto + "\nmessage More {\n}\n", Type: sr.TypeProtobuf})
	check("a read-only subject", status(err), nil, 422)
	check("delete a version", true, client.DeleteSchema(ctx, "lines", 1, sr.SoftDelete), true)
	gone, err := client.DeleteSubject(ctx, "orders", sr.SoftDelete)
	check("delete", gone, err, []int{1, 2})
	_, err = client.SchemaByVersion(ctx, "orders", -1)
	check("a deleted subject", status(err), nil, 404)
	all, err := client.Subjects(ctx)
	check("subjects", all, err, []string{"stops"})
}
