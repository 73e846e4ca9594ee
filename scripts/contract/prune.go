package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

type object = map[string]any

// prune cuts a description to the operations or webhooks named in keep and the
// components they refer to, without what does not bind anybody: prose,
// examples, defaults and extensions. Equal input gives equal output, one line a
// component.
func prune(description []byte, keep []string) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(description))
	d.UseNumber()
	var full object
	if err := d.Decode(&full); err != nil {
		return nil, err
	}
	info, _ := full["info"].(object)
	out := object{
		"openapi": full["openapi"],
		"info":    object{"title": info["title"], "version": info["version"], "license": info["license"]},
	}
	for _, name := range keep {
		if err := keepOne(full, out, name); err != nil {
			return nil, err
		}
	}
	components := object{}
	for todo := refs(out, nil); len(todo) > 0; {
		section, name, _ := strings.Cut(strings.TrimPrefix(todo[0], "#/components/"), "/")
		todo = todo[1:]
		if in, ok := components[section].(object); ok && in[name] != nil {
			continue
		}
		all, _ := full["components"].(object)
		in, _ := all[section].(object)
		if in[name] == nil {
			return nil, fmt.Errorf("it refers to component %s/%s, which it does not have", section, name)
		}
		kept := strip(in[name], section == "schemas", false)
		if components[section] == nil {
			components[section] = object{}
		}
		components[section].(object)[name] = kept
		todo = refs(kept, todo)
	}
	out["components"] = components
	var b bytes.Buffer
	if err := write(&b, out, 0); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// keepOne takes an operation or a webhook over.
func keepOne(full, out object, name string) error {
	method, path, isOperation := strings.Cut(name, " ")
	section, key := "webhooks", name
	if isOperation {
		section, key = "paths", path
	} else {
		method = "post"
	}
	method = strings.ToLower(method)
	all, _ := full[section].(object)
	item, _ := all[key].(object)
	if item[method] == nil {
		return fmt.Errorf("it has no %s; where did it go?", name)
	}
	if out[section] == nil {
		out[section] = object{}
	}
	into := out[section].(object)
	if into[key] == nil {
		into[key] = object{}
	}
	into[key].(object)[method] = strip(item[method], false, false)
	if item["parameters"] != nil {
		into[key].(object)["parameters"] = strip(item["parameters"], false, false)
	}
	return nil
}

// binding extensions are kept: a parameter of several segments may contain slashes.
var binding = map[string]bool{"x-multi-segment": true}

// strip drops what binds nobody. Under properties and the like the keys are names people chose, and all stay.
func strip(v any, schema, names bool) any {
	switch x := v.(type) {
	case object:
		out := object{}
		for k, y := range x {
			if !names {
				switch {
				case k == "example", k == "examples", k == "externalDocs", k == "default", k == "deprecated", k == "tags", k == "summary", strings.HasPrefix(k, "x-") && !binding[k]:
					continue
				case k == "description" && schema, k == "title":
					continue
				case k == "description":
					out[k] = "" // a response has to have one
					continue
				case k == "enum", k == "required", k == "const":
					out[k] = y
					continue
				}
			}
			in := !names && slices.Contains([]string{"properties", "patternProperties", "responses", "headers", "content"}, k)
			out[k] = strip(y, schema || k == "schema", in)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, y := range x {
			out[i] = strip(y, schema, false)
		}
		return out
	}
	return v
}

// refs adds every component v refers to.
func refs(v any, to []string) []string {
	switch x := v.(type) {
	case object:
		if r, ok := x["$ref"].(string); ok {
			to = append(to, r)
		}
		for _, k := range slices.Sorted(maps.Keys(x)) {
			to = refs(x[k], to)
		}
	case []any:
		for _, y := range x {
			to = refs(y, to)
		}
	}
	return to
}

// write writes v sorted, with a line for each operation, webhook and component.
func write(b *bytes.Buffer, v any, depth int) error {
	x, ok := v.(object)
	if !ok || depth == 3 {
		var line bytes.Buffer
		e := json.NewEncoder(&line)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			return err
		}
		b.Write(bytes.TrimSpace(line.Bytes()))
		return nil
	}
	b.WriteString("{")
	for i, k := range slices.Sorted(maps.Keys(x)) {
		if i > 0 {
			b.WriteString(",")
		}
		name, err := json.Marshal(k)
		if err != nil {
			return err
		}
		b.WriteString("\n" + strings.Repeat(" ", depth+1))
		b.Write(name)
		b.WriteString(": ")
		if err := write(b, x[k], depth+1); err != nil {
			return err
		}
	}
	b.WriteString("\n" + strings.Repeat(" ", depth) + "}")
	return nil
}
