package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
	yamlv3 "go.yaml.in/yaml/v3"
)

// prefix begins the name of every environment variable that is a setting.
const prefix = "BATCHBOT_"

// Load reads the settings file at path and the variables of environ ("NAME=value"), fills in defaults, reads the files that hold
// secrets and checks everything. Its error is Mistakes.
func Load(path string, environ []string) (Settings, error) {
	return load(path, environ, readFile)
}

// load is Load with the file system as a parameter.
func load(path string, environ []string, read func(string) ([]byte, error)) (Settings, error) {
	content, err := read(path)
	if err != nil {
		return Settings{}, Mistakes{fmt.Sprintf("%s: %s: name the settings file with --config FILE", path, because(err))}
	}
	l := loader{file: path, read: read, fromEnv: make(map[string]string)}
	s := l.load(content, environ)
	if len(l.mistakes) > 0 {
		return Settings{}, l.mistakes
	}
	return s, nil
}

type loader struct {
	file     string
	read     func(string) ([]byte, error)
	fromEnv  map[string]string // path of a setting → the variable that holds it
	mistakes Mistakes
}

func (l *loader) load(content []byte, environ []string) Settings {
	k := koanf.New(".")
	if err := k.Load(rawbytes.Provider(content), yaml.Parser()); err != nil {
		for _, line := range yamlMistakes(err) {
			l.mistakes.add("%s: %s", l.file, line)
		}
		return Settings{}
	}
	variables := env.Provider(".", env.Opt{
		Prefix:      prefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, prefix)), "__", "."), value
		},
	})
	if err := k.Load(variables, nil, koanf.WithMergeFunc(l.overlay)); err != nil {
		l.mistakes.add("environment: %v", err)
		return Settings{}
	}
	s := Defaults()
	l.fill("", &s, k.Raw())
	s.derive()
	if len(l.mistakes) == 0 {
		l.validate(&s)
	}
	if len(l.mistakes) == 0 {
		l.readSecrets(&s)
	}
	return s
}

// say adds a mistake about one setting.
func (l *loader) say(path, format string, args ...any) {
	where := l.file + ": " + path
	if name, ok := l.fromEnv[path]; ok {
		where = name
	}
	l.mistakes.add("%s: %s", where, fmt.Sprintf(format, args...))
}

// overlay puts the tree of variables over the tree of the file. Elements of lists are addressed by position, hosts by name.
func (l *loader) overlay(variables, file map[string]any) error {
	l.overlayMap("", prefix, variables, file)
	return nil
}

func (l *loader) overlayMap(path, name string, variables, file map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(variables)) {
		at, variable := join(path, key), name+strings.ToUpper(key)
		file[key] = l.overlayValue(at, variable, variables[key], file[key])
	}
}

func (l *loader) overlayValue(path, name string, value, below any) any {
	tree, nested := value.(map[string]any)
	if !nested {
		l.fromEnv[path] = name
		return value
	}
	if list, ok := below.([]any); ok || path == "hosts" || numbered(tree) {
		return l.overlayList(path, name, tree, slices.Clone(list))
	}
	section, ok := below.(map[string]any)
	if !ok {
		section = make(map[string]any)
	}
	l.overlayMap(path, name+"__", tree, section)
	return section
}

func (l *loader) overlayList(path, name string, tree map[string]any, list []any) []any {
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		variable := name + "__" + strings.ToUpper(key)
		i := position(key, list)
		switch {
		case i >= 0 && i < len(list):
			list[i] = l.overlayValue(fmt.Sprintf("%s[%d]", path, i), variable, tree[key], list[i])
		case i == len(list):
			list = append(list, l.overlayValue(fmt.Sprintf("%s[%d]", path, i), variable, tree[key], nil))
		case path == "hosts":
			l.mistakes.add("%s…: no host has this name in %s: %s", variable, l.file, hostNames(list))
		default:
			l.mistakes.add("%s: positions in a list count from 0 without a gap", variable)
		}
	}
	return list
}

// position finds an element by number or by its name; -1: neither.
func position(key string, list []any) int {
	if i, err := strconv.Atoi(key); err == nil && i >= 0 && i <= len(list) {
		return i
	}
	return slices.IndexFunc(list, func(element any) bool {
		section, _ := element.(map[string]any)
		name, _ := section["name"].(string)
		return name != "" && strings.ReplaceAll(name, "-", "_") == key
	})
}

func hostNames(list []any) string {
	var names []string
	for _, element := range list {
		if section, ok := element.(map[string]any); ok {
			if name, ok := section["name"].(string); ok {
				names = append(names, strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
			}
		}
	}
	if len(names) == 0 {
		return "it names no hosts"
	}
	return "write " + oneOf(names)
}

func numbered(tree map[string]any) bool {
	for key := range tree {
		if _, err := strconv.Atoi(key); err != nil {
			return false
		}
	}
	return len(tree) > 0
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// maxFile bounds what is read of a settings or secret file.
const maxFile = 1 << 20

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(f, maxFile+1))
	if err == nil && n > maxFile {
		err = errors.New("is larger than 1 MiB")
	}
	return b.Bytes(), err
}

// because says why a file could not be read, without repeating its name.
func because(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such file"
	case errors.Is(err, fs.ErrPermission):
		return "this process may not read it"
	}
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return "cannot be read: " + pathError.Err.Error()
	}
	return "cannot be read: " + err.Error()
}

// yamlMistakes says what is wrong with a YAML file without showing its values, which may be secrets.
func yamlMistakes(err error) []string {
	var types *yamlv3.TypeError
	if !errors.As(err, &types) {
		return []string{"is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	var lines []string
	for _, line := range types.Errors {
		if strings.Contains(line, "already defined") {
			lines = append(lines, line+": remove one of the two")
		}
	}
	if lines == nil {
		lines = []string{"is not a list of settings: write one per line, as in listen: 127.0.0.1:8080"}
	}
	return lines
}
