package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const published = `{"openapi":"3.0.3","info":{"title":"T","version":"1","description":"prose"},
"paths":{"/app":{"get":{"operationId":"app","description":"prose","x-github":{"a":1},
 "parameters":[{"$ref":"#/components/parameters/ref"}],
 "responses":{"200":{"description":"prose","content":{"application/json":{"schema":{"$ref":"#/components/schemas/app"},"examples":{"a":{"$ref":"#/components/examples/a"}}}}}}},
 "delete":{"responses":{}}},"/other":{"get":{"responses":{"200":{"$ref":"#/components/responses/other"}}}}},
"components":{"parameters":{"ref":{"name":"ref","in":"path","x-multi-segment":true,"description":"prose"}},
 "schemas":{"app":{"type":"object","title":"App","required":["description","example"],
  "properties":{"description":{"type":"string","example":"x"},"example":{"type":"string","default":""},"x-y":{"$ref":"#/components/schemas/part"}}},
  "part":{"enum":["a&b"]},"unused":{}}}}`

func TestOnlyWhatIsKeptStays(t *testing.T) {
	t.Parallel()
	got, err := prune([]byte(published), []string{"GET /app"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := prune([]byte(published), []string{"GET /app"})
	if err != nil || !bytes.Equal(got, again) {
		t.Errorf("a second time it is\n%s\n%v", again, err)
	}
	var doc map[string]any
	if err := json.Unmarshal(got, &doc); err != nil {
		t.Fatalf("%v in\n%s", err, got)
	}
	text := string(got)
	for _, want := range []string{`"required":["description","example"]`, `"description":{"type":"string"}`, `"x-multi-segment":true`, `"x-y"`, `a&b`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	for _, gone := range []string{"prose", "examples", "x-github", "unused", "/other", `"delete"`, `"title":"App"`} {
		if strings.Contains(text, gone) {
			t.Errorf("%s is still in\n%s", gone, text)
		}
	}
	if _, err := prune([]byte(published), []string{"GET /gone"}); err == nil || !strings.Contains(err.Error(), "GET /gone") {
		t.Errorf("of an operation that is gone it says %v", err)
	}
	if _, err := prune([]byte(published), []string{"GET /other"}); err == nil || !strings.Contains(err.Error(), "responses/other") {
		t.Errorf("of a component that is missing it says %v", err)
	}
}

func TestTheTableMissesWhatNobodyExercised(t *testing.T) {
	t.Parallel()
	l := lock{Sources: []*source{{Package: "p", Version: "1", Keep: []string{"GET /app", "GET /meta", "push"}}}}
	notes := func(lines ...string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "github.txt"), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	e := exceptions{Statuses: []unlisted{{"*", 401}}}
	var out bytes.Buffer
	all := []string{"operation GET /app 200", "operation GET /app 401", "operation GET /meta 200", "webhook push", "exception status * 401"}
	if err := table(l, e, notes(all...), &out); err != nil || !strings.Contains(out.String(), "200 401") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if err := table(l, e, notes(all[1:4]...), &out); err == nil || !strings.Contains(err.Error(), "exception status * 401") {
		t.Errorf("of an exception nobody needs it says %v", err)
	}
	for i, what := range map[int]string{2: "GET /meta", 3: "push"} {
		if err := table(l, e, notes(append(append([]string{}, all[:i]...), all[i+1:]...)...), &out); err == nil || !strings.Contains(err.Error(), "never exercised: "+what) {
			t.Errorf("without %s it says %v", what, err)
		}
	}
	if err := table(l, e, t.TempDir(), &out); err == nil {
		t.Error("a table of nothing")
	}
}
