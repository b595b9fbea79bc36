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

func (r *run) settings() {
	level := func(found []sr.CompatibilityResult) any {
		if found[0].Err != nil {
			return refusal(found[0].Err)
		}
		return found[0].Level.String()
	}
	mode := func(found []sr.ModeResult) any {
		if found[0].Err != nil {
			return refusal(found[0].Err)
		}
		return found[0].Mode.String()
	}
	full := sr.SetCompatibility{Level: sr.CompatFullTransitive, Group: "major"}
	seen := map[string]any{
		"global":        level(r.cl.Compatibility(r.ctx)),
		"none":          level(r.cl.Compatibility(r.ctx, "go-orders")),
		"default":       level(r.cl.Compatibility(sr.WithParams(r.ctx, sr.DefaultToGlobal), "go-orders")),
		"set":           level(r.cl.SetCompatibility(r.ctx, full, "go-orders")),
		"got":           level(r.cl.Compatibility(r.ctx, "go-orders")),
		"group":         r.cl.Compatibility(r.ctx, "go-orders")[0].Group,
		"reset":         r.cl.ResetCompatibility(r.ctx, "go-orders")[0].Err == nil,
		"afterwards":    level(r.cl.Compatibility(r.ctx, "go-orders")),
		"globalMode":    mode(r.cl.Mode(r.ctx)),
		"noMode":        mode(r.cl.Mode(r.ctx, "go-orders")),
		"setMode":       mode(r.cl.SetMode(r.ctx, sr.ModeReadOnly, "go-orders")),
		"gotMode":       mode(r.cl.Mode(r.ctx, "go-orders")),
		"writeReadOnly": refusal(r.cl.DeleteSchema(r.ctx, "go-orders", 1, sr.SoftDelete)),
		"resetMode":     mode(r.cl.ResetMode(r.ctx, "go-orders")),
	}
	seen["setImport"] = mode(r.cl.SetMode(r.ctx, sr.ModeImport, "go-imported"))
	seen["imported"] = asMap(must(r.cl.CreateSchemaWithIDAndVersion(
		r.ctx, "go-imported", sr.Schema{Schema: `"bytes"`}, 9000, 7)))
	r.seen["settings"] = seen
}

func (r *run) contexts() {
	other := must(sr.NewClient(sr.URLs(r.url), sr.DefaultSchemaContext(".go")))
	one := must(other.CreateSchema(r.ctx, "s", sr.Schema{Schema: `"int"`}))
	r.seen["inContext"] = asMap(one)
	r.seen["contexts"] = must(r.cl.Contexts(r.ctx))
	r.seen["contextSubjects"] = must(other.Subjects(r.ctx))
	r.seen["notEmpty"] = refusal(r.cl.DeleteContext(r.ctx, ".go"))
	must(other.DeleteSubject(r.ctx, "s", sr.SoftDelete))
	must(other.DeleteSubject(r.ctx, "s", sr.HardDelete))
	r.seen["contextDeleted"] = refusal(r.cl.DeleteContext(r.ctx, ".go"))
	r.seen["contextsAfterwards"] = must(r.cl.Contexts(r.ctx))
}

func (r *run) deletes() {
	text := func(n string) sr.Schema {
		return sr.Schema{Schema: `{"type":"enum","name":"E` + n + `","symbols":["A"]}`}
	}
	r.cl.SetCompatibility(r.ctx, sr.SetCompatibility{Level: sr.CompatNone}, "go-old")
	ids := []int{}
	for _, n := range []string{"1", "2", "3"} {
		ids = append(ids, must(r.cl.CreateSchema(r.ctx, "go-old", text(n))).ID)
	}
	deleted := sr.WithParams(r.ctx, sr.ShowDeleted)
	seen := map[string]any{
		"ids":        ids,
		"hardFirst":  refusal(r.cl.DeleteSchema(r.ctx, "go-old", 1, sr.HardDelete)),
		"soft":       refusal(r.cl.DeleteSchema(r.ctx, "go-old", 1, sr.SoftDelete)),
		"softTwice":  refusal(r.cl.DeleteSchema(r.ctx, "go-old", 1, sr.SoftDelete)),
		"left":       must(r.cl.SubjectVersions(r.ctx, "go-old")),
		"withHidden": must(r.cl.SubjectVersions(deleted, "go-old")),
		"onlyHidden": must(r.cl.SubjectVersions(sr.WithParams(r.ctx, sr.DeletedOnly), "go-old")),
		"hard":       refusal(r.cl.DeleteSchema(r.ctx, "go-old", 1, sr.HardDelete)),
		"afterHard":  must(r.cl.SubjectVersions(deleted, "go-old")),
	}
	_, err := r.cl.SchemaByID(r.ctx, ids[0])
	seen["goneById"] = refusal(err)
	_, err = r.cl.DeleteSubject(r.ctx, "go-old", sr.HardDelete)
	seen["subjectHardFirst"] = refusal(err)
	seen["subject"] = must(r.cl.DeleteSubject(r.ctx, "go-old", sr.SoftDelete))
	_, err = r.cl.SubjectVersions(r.ctx, "go-old")
	seen["subjectGone"] = refusal(err)
	_, err = r.cl.DeleteSubject(r.ctx, "go-old", sr.SoftDelete)
	seen["subjectTwice"] = refusal(err)
	seen["subjectHard"] = must(r.cl.DeleteSubject(r.ctx, "go-old", sr.HardDelete))
	_, err = r.cl.SchemaByVersion(r.ctx, "go-orders", 9)
	seen["noVersion"] = refusal(err)
	r.seen["deletes"] = seen
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
	r.settings()
	r.contexts()
	r.deletes()
	r.serdes()
	r.seen["subjects"] = must(r.cl.Subjects(ctx))
	r.seen["all"] = names(must(r.cl.AllSchemas(ctx)))
	if err := json.NewEncoder(os.Stdout).Encode(r.seen); err != nil {
		panic(err)
	}
}
