package contract

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// completed adds what GitHub always sends to a scripted answer.
func completed(o *operation, resp *http.Response, body []byte) []byte {
	if resp.Header.Get("Content-Type") == "" && len(bytes.TrimSpace(body)) > 0 {
		resp.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	described := o.route.Operation.Responses.Status(resp.StatusCode)
	if described == nil {
		return body
	}
	media := described.Value.Content.Get(resp.Header.Get("Content-Type"))
	var value any
	if media == nil || media.Schema == nil || json.Unmarshal(body, &value) != nil {
		return body
	}
	full, err := json.Marshal(complete(media.Schema.Value, value))
	if err != nil {
		return body
	}
	return full
}

// complete adds what the schema requires and value lacks. Of alternatives it takes the first that then fits.
func complete(schema *openapi3.Schema, value any) any {
	parts := together(schema)
	for _, part := range parts {
		for _, refs := range []openapi3.SchemaRefs{part.AnyOf, part.OneOf} {
			for _, r := range refs {
				if full := complete(r.Value, chosen(part, r.Ref, value)); r.Value.VisitJSON(full) == nil {
					value = full
					break
				}
			}
		}
	}
	switch v := value.(type) {
	case map[string]any:
		full := maps.Clone(v)
		for _, part := range parts {
			for k := range v {
				if p := part.Properties[k]; p != nil {
					full[k] = complete(p.Value, full[k])
				}
			}
		}
		for _, part := range parts {
			for _, k := range part.Required {
				if _, has := full[k]; !has && part.Properties[k] != nil {
					full[k] = leastOf(k, parts)
				}
			}
		}
		return full
	case []any:
		full := slices.Clone(v)
		for _, part := range parts {
			for i := range full {
				if part.Items != nil {
					full[i] = complete(part.Items.Value, full[i])
				}
			}
		}
		return full
	}
	return value
}

// together is a schema and all that must hold with it.
func together(schema *openapi3.Schema) []*openapi3.Schema {
	parts := []*openapi3.Schema{schema}
	for _, r := range schema.AllOf {
		parts = append(parts, together(r.Value)...)
	}
	return parts
}

// leastOf is the least value of a key that suits every part that has it.
func leastOf(key string, parts []*openapi3.Schema) any {
	var described []*openapi3.Schema
	for _, part := range parts {
		if p := part.Properties[key]; p != nil {
			described = append(described, p.Value)
		}
	}
	var value any
	for _, s := range described {
		value = least(s)
		if value == "" && strings.HasSuffix(key, "_at") {
			value = moment // described as any text, read as a time
		}
		for _, other := range described {
			value = complete(other, value)
		}
		if !slices.ContainsFunc(described, func(other *openapi3.Schema) bool { return other.VisitJSON(value) != nil }) {
			break
		}
	}
	return value
}

// chosen adds the key by which an alternative is told from the others.
func chosen(schema *openapi3.Schema, ref string, value any) any {
	v, ok := value.(map[string]any)
	if schema.Discriminator == nil || !ok || v[schema.Discriminator.PropertyName] != nil {
		return value
	}
	for word, m := range schema.Discriminator.Mapping {
		if m.Ref == ref {
			v = maps.Clone(v)
			v[schema.Discriminator.PropertyName] = word
		}
	}
	return v
}

const moment = "2026-01-01T00:00:00Z"

// least is a value of a schema that says as little as it can.
func least(schema *openapi3.Schema) any {
	switch {
	case schema.Nullable || schema.Type.Includes("null"):
		return nil
	case len(schema.Enum) > 0:
		return schema.Enum[0]
	case schema.Type.Is("boolean"):
		return false
	case schema.Type.Is("integer"), schema.Type.Is("number"):
		return 0
	case schema.Type.Is("array"):
		return []any{}
	case schema.Type.Is("string"):
		switch schema.Format {
		case "date-time":
			return moment
		case "uri":
			return "https://ghe.example/"
		}
		return ""
	}
	for _, refs := range []openapi3.SchemaRefs{schema.OneOf, schema.AnyOf} {
		if len(refs) > 0 {
			return least(refs[0].Value)
		}
	}
	return complete(schema, map[string]any{})
}
