// What franz-go's package sr makes of a registry.
// In: the registry's URL as the argument, the job as JSON on stdin. Out: what it saw, as JSON on stdout.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

type job struct {
	Order, Wider, Narrower, Address, Customer, JSON, Ride string
	Written                                               map[string][]byte
}

type run struct {
	ctx  context.Context
	cl   *sr.Client
	url  string
	job  job
	seen map[string]any
}

// must ends the run when a call fails that should not.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// refusal is how the client shows an error of the registry.
func refusal(err error) any {
	var refused *sr.ResponseError
	if err == nil {
		return nil
	}
	if !errors.As(err, &refused) {
		panic(err)
	}
	seen := map[string]any{"status": refused.StatusCode, "code": refused.ErrorCode, "message": refused.Message}
	if known := refused.SchemaError(); known != nil && known.Code == refused.ErrorCode {
		seen["name"] = known.Name
	}
	return seen
}

func asMap(one sr.SubjectSchema) map[string]any {
	return map[string]any{
		"subject": one.Subject, "version": one.Version, "id": one.ID, "guid": one.GUID,
		"type": one.Type.String(), "schema": one.Schema.Schema, "references": one.References,
	}
}

func names(all []sr.SubjectSchema) []string {
	seen := []string{}
	for _, one := range all {
		seen = append(seen, fmt.Sprintf("%s/%d", one.Subject, one.Version))
	}
	slices.Sort(seen)
	return seen
}

func (r *run) schemas() {
	order, wider := sr.Schema{Schema: r.job.Order}, sr.Schema{Schema: r.job.Wider}
	first := must(r.cl.CreateSchema(r.ctx, "go-orders", order))
	r.seen["first"] = asMap(first)
	r.seen["again"] = must(r.cl.CreateSchema(r.ctx, "go-orders", order)).ID
	r.seen["lookup"] = asMap(must(r.cl.LookupSchema(r.ctx, "go-orders", order)))
	r.seen["compatible"] = must(r.cl.CheckCompatibility(r.ctx, "go-orders", -1, wider))
	narrower := sr.Schema{Schema: r.job.Narrower}
	verbose := sr.WithParams(r.ctx, sr.Verbose)
	r.seen["incompatible"] = must(r.cl.CheckCompatibility(verbose, "go-orders", 1, narrower))
	r.seen["incompatibleWithAny"] = must(r.cl.CheckCompatibility(verbose, "go-orders", -2, narrower)).Is
	_, err := r.cl.CreateSchema(r.ctx, "go-orders", narrower)
	r.seen["refused"] = refusal(err)
	_, err = r.cl.CreateSchema(r.ctx, "go-orders", sr.Schema{Schema: `{"type":"nope"}`})
	r.seen["invalid"] = refusal(err)
	r.seen["second"] = asMap(must(r.cl.CreateSchema(sr.WithParams(r.ctx, sr.Normalize), "go-orders", wider)))
	r.seen["latest"] = must(r.cl.SchemaByVersion(r.ctx, "go-orders", -1)).Version
	r.seen["versions"] = must(r.cl.SubjectVersions(r.ctx, "go-orders"))
	r.seen["schemas"] = names(must(r.cl.Schemas(r.ctx, "go-orders")))
	r.seen["byId"] = must(r.cl.SchemaByID(r.ctx, first.ID)).Schema
	r.seen["textById"] = must(r.cl.SchemaTextByID(r.ctx, first.ID))
	r.seen["textByVersion"] = must(r.cl.SchemaTextByVersion(r.ctx, "go-orders", 1))
	r.seen["byGuid"] = must(r.cl.SchemaByGUID(r.ctx, first.GUID)).Schema.Schema
	r.seen["idsByGuid"] = must(r.cl.SchemaIDsByGUID(r.ctx, first.GUID))
	r.seen["subjectsById"] = must(r.cl.SubjectsByID(r.ctx, first.ID))
	r.seen["versionsById"] = must(r.cl.SchemaVersionsByID(r.ctx, first.ID))
	types := []string{}
	for _, one := range must(r.cl.SupportedTypes(r.ctx)) {
		types = append(types, one.String())
	}
	r.seen["types"] = types
}

func (r *run) references() {
	must(r.cl.CreateSchema(r.ctx, "go-address", sr.Schema{Schema: r.job.Address}))
	whole := sr.Schema{
		Schema:     r.job.Customer,
		References: []sr.SchemaReference{{Name: "x.Address", Subject: "go-address", Version: 1}},
	}
	r.seen["customer"] = asMap(must(r.cl.CreateSchema(r.ctx, "go-customer", whole)))
	r.seen["referencedBy"] = names(must(r.cl.SchemaReferences(r.ctx, "go-address", 1)))
	r.seen["referenced"] = refusal(r.cl.DeleteSchema(r.ctx, "go-address", 1, sr.SoftDelete))
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r := &run{ctx: ctx, url: os.Args[1], seen: map[string]any{}}
	if err := json.NewDecoder(os.Stdin).Decode(&r.job); err != nil {
		panic(err)
	}
	r.cl = must(sr.NewClient(sr.URLs(r.url)))
	r.schemas()
	r.references()
	r.serdes()
	if err := json.NewEncoder(os.Stdout).Encode(r.seen); err != nil {
		panic(err)
	}
}
