package contract

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
)

// finding is one thing that is not as described.
type finding struct {
	at   string // JSON pointer, "" for the whole
	what string
}

func (f finding) String() string {
	if f.at == "" {
		return f.what
	}
	return f.at + ": " + f.what
}

func itoa(n int) string { return strconv.Itoa(n) }

// violations says how value is not as the schema describes it, unknown keys included.
func violations(schema *openapi3.Schema, value any) []finding {
	found := unknown([]*openapi3.Schema{schema}, value, "")
	return append(found, flatten(schema.VisitJSON(value, openapi3.MultiErrors()))...)
}

// flatten turns the library's error into findings.
func flatten(err error) []finding {
	var many openapi3.MultiError
	var of *openapi3.SchemaError
	var request *openapi3filter.RequestError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &request) && request.Err != nil:
		var found []finding
		where := "body"
		if request.Parameter != nil {
			where = request.Parameter.In + " parameter " + request.Parameter.Name
		}
		for _, f := range flatten(request.Err) {
			found = append(found, finding{f.at, where + ": " + f.what})
		}
		return found
	case errors.As(err, &many):
		var found []finding
		for _, e := range many {
			found = append(found, flatten(e)...)
		}
		return found
	case errors.As(err, &of):
		return []finding{{pointer(of.JSONPointer()), of.Reason}}
	}
	return []finding{{"", err.Error()}}
}

func pointer(path []string) string {
	if len(path) == 0 {
		return ""
	}
	return "/" + strings.Join(path, "/")
}

// alternatives are the schemas a value may or must satisfy together: itself and what it is composed of.
func alternatives(schemas []*openapi3.Schema) []*openapi3.Schema {
	var all []*openapi3.Schema
	for _, s := range schemas {
		if s == nil {
			continue
		}
		all = append(all, s)
		for _, refs := range []openapi3.SchemaRefs{s.AllOf, s.AnyOf, s.OneOf} {
			for _, r := range refs {
				all = append(all, alternatives([]*openapi3.Schema{r.Value})...)
			}
		}
	}
	return all
}

// unknown finds keys that none of the schemas has, at any depth. Schemas are
// open by default, so a validator accepts them; but GitHub ignores what it does
// not know, and whoever expects such a key waits for ever. An object whose
// schema names no key at all, or says that more may come, may hold anything.
func unknown(schemas []*openapi3.Schema, value any, at string) []finding {
	all := alternatives(schemas)
	var found []finding
	switch v := value.(type) {
	case map[string]any:
		open, named := false, false
		for _, s := range all {
			open = open || s.AdditionalProperties.Schema != nil || s.AdditionalProperties.Has != nil && *s.AdditionalProperties.Has
			named = named || len(s.Properties) > 0
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			var of []*openapi3.Schema
			for _, s := range all {
				if p := s.Properties[key]; p != nil {
					of = append(of, p.Value)
				} else if more := s.AdditionalProperties.Schema; more != nil {
					of = append(of, more.Value)
				}
			}
			if len(of) == 0 && named && !open {
				found = append(found, finding{at + "/" + key, "GitHub does not know this key"})
			}
			found = append(found, unknown(of, v[key], at+"/"+key)...)
		}
	case []any:
		var of []*openapi3.Schema
		for _, s := range all {
			if s.Items != nil {
				of = append(of, s.Items.Value)
			}
		}
		for i, x := range v {
			found = append(found, unknown(of, x, fmt.Sprint(at, "/", i))...)
		}
	}
	return found
}
