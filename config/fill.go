package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/batchbot/batchbot/bot"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	secretType   = reflect.TypeFor[bot.Secret]()
	hostType     = reflect.TypeFor[Host]()
)

// fill sets the fields of a settings struct from a tree of plain values. Whatever has no field or is not of its field's type is a mistake.
func (l *loader) fill(path string, target any, tree map[string]any) {
	l.fillStruct(path, reflect.ValueOf(target).Elem(), tree)
}

func (l *loader) fillStruct(path string, target reflect.Value, tree map[string]any) {
	fields, known := fieldsOf(target.Type())
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		at := join(path, key)
		if i, ok := fields[key]; ok {
			l.fillValue(at, target.Field(i), tree[key])
			continue
		}
		remedy := unknownKey(key, known)
		if where := elsewhere(key); where != "" {
			if _, near := nearest(key, known); !near {
				remedy = fmt.Sprintf("unknown key %s: it belongs to %s", quoted(key), where)
			}
		}
		l.say(at, "%s", remedy)
	}
}

func (l *loader) fillValue(path string, target reflect.Value, value any) {
	if value == nil {
		// A section whose keys are all commented out is a section of defaults.
		if target.Kind() != reflect.Struct {
			l.say(path, "is empty: give it a value or remove it")
		}
		return
	}
	switch {
	case target.Type() == durationType:
		if d, ok := duration(value); ok {
			target.SetInt(int64(d))
		} else {
			l.say(path, "%s is not a duration: write a number with a unit, such as 500ms, 30s or 2h", show(value))
		}
	case target.Type() == secretType:
		text, ok := value.(string)
		switch {
		case !ok:
			l.say(path, "is not text: put it in quotes")
		case text == "":
			l.say(path, "is empty: give the secret or remove the key")
		default:
			target.SetString(text)
		}
	case target.Kind() == reflect.String:
		if text, ok := value.(string); ok {
			target.SetString(text)
		} else {
			l.say(path, "%s is not text: write one value, in quotes if it is a number", show(value))
		}
	case target.Kind() == reflect.Int, target.Kind() == reflect.Int64:
		n, err := strconv.ParseInt(fmt.Sprint(value), 10, 64)
		if err != nil {
			l.say(path, "%s is not a whole number", show(value))
		}
		target.SetInt(n)
	case target.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(fmt.Sprint(value))
		if err != nil {
			l.say(path, "%s is neither true nor false", show(value))
		}
		target.SetBool(b)
	case target.Kind() == reflect.Struct:
		if tree, ok := value.(map[string]any); ok {
			l.fillStruct(path, target, tree)
		} else {
			_, known := fieldsOf(target.Type())
			l.say(path, "is not a section: write below it, indented, any of %s", oneOf(known))
		}
	case target.Kind() == reflect.Slice:
		list, ok := value.([]any)
		if !ok {
			l.say(path, "is not a list: write each element below it, on a line that begins with a hyphen")
			return
		}
		slice := reflect.MakeSlice(target.Type(), len(list), len(list))
		for i, element := range list {
			if target.Type().Elem() == hostType {
				slice.Index(i).Set(reflect.ValueOf(defaultHost()))
			}
			l.fillValue(fmt.Sprintf("%s[%d]", path, i), slice.Index(i), element)
		}
		target.Set(slice)
	default:
		panic("config: no rule for a setting of type " + target.Type().String())
	}
}

// duration accepts what time.ParseDuration does, and a bare zero.
func duration(value any) (time.Duration, bool) {
	switch v := value.(type) {
	case string:
		d, err := time.ParseDuration(v)
		return d, err == nil
	case int:
		return 0, v == 0
	}
	return 0, false
}

// show shows a value that is no secret and may be of any shape.
func show(value any) string {
	switch v := value.(type) {
	case string:
		return quoted(v)
	case map[string]any:
		return "a section"
	case []any:
		return "a list"
	default:
		return fmt.Sprint(v)
	}
}

// fieldsOf maps the keys of a settings struct to its fields and lists them in order.
func fieldsOf(t reflect.Type) (fields map[string]int, keys []string) {
	fields = make(map[string]int, t.NumField())
	for i := range t.NumField() {
		key := t.Field(i).Tag.Get("koanf")
		fields[key], keys = i, append(keys, key)
	}
	return fields, keys
}

// elsewhere finds the section that a misplaced key belongs to.
func elsewhere(key string) string {
	var found string
	var walk func(path string, t reflect.Type)
	walk = func(path string, t reflect.Type) {
		for field := range t.Fields() {
			name := field.Tag.Get("koanf")
			if name == key && found == "" {
				if found = path; path == "" {
					found = "the top level"
				}
			}
			switch ft := field.Type; {
			case ft.Kind() == reflect.Struct:
				walk(join(path, name), ft)
			case ft.Kind() == reflect.Slice && ft.Elem().Kind() == reflect.Struct:
				walk(join(path, name), ft.Elem())
			}
		}
	}
	walk("", reflect.TypeFor[Settings]())
	return found
}
