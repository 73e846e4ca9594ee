package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// Each row that no table could hold is named, all of them at once, before anything is written.
func TestRowNumbersThatAreNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mr := w.opens(2)
	set := w.drafts(mr...)
	before := w.get(set).body
	for rows, want := range map[string][]string{
		`[{"mr": 1}]`:                                 {"rows[0].row_no is missing"},
		`[{"row_no": null, "mr": 1}]`:                 {"rows[0].row_no is not a whole number"},
		`[{"row_no": 0, "mr": 1}]`:                    {"rows[0].row_no is 0"},
		`[{"row_no": -1, "mr": 1}]`:                   {"rows[0].row_no is -1"},
		`[{"row_no": -0, "mr": 1}]`:                   {"rows[0].row_no is not a whole number"},
		`[{"row_no": 1.5, "mr": 1}]`:                  {"rows[0].row_no is not a whole number"},
		`[{"row_no": 1.0, "mr": 1}]`:                  {"rows[0].row_no is not a whole number"},
		`[{"row_no": 1e0, "mr": 1}]`:                  {"rows[0].row_no is not a whole number"},
		`[{"row_no": "1", "mr": 1}]`:                  {"rows[0].row_no is not a whole number"},
		`[{"row_no": true, "mr": 1}]`:                 {"rows[0].row_no is not a whole number"},
		`[{"row_no": [1], "mr": 1}]`:                  {"rows[0].row_no is not a whole number"},
		`[{"row_no": 4294967297, "mr": 1}]`:           {"rows[0].row_no is 4294967297"},
		`[{"row_no": 99999999999999999999, "mr": 1}]`: {"rows[0].row_no is not a whole number"},
		`[{"row_no": 1, "mr": 1}, {"row_no": 2, "mr": 2}, {"row_no": 1, "mr": 3}]`: {"the row number 1 is that of rows[0] as well"},
		`[{"row_no": 1}]`:                       {"rows[0].mr is missing"},
		`[{"row_no": 1, "mr": 0}]`:              {"rows[0].mr is 0"},
		`[{"row_no": 1, "mr": "12"}]`:           {"rows[0].mr is not a whole number"},
		`[{"row_no": 1, "mr": 1, "ROW_NO": 2}]`: {`rows[0]."ROW_NO" is not known here`},
		`[{"Row_No": 1, "mr": 1}]`:              {`rows[0]."Row_No" is not known here`},
		`[{"row_no": 1, "row_no": 2, "mr": 1}]`: {"rows[0].row_no is there twice"},
		`[7]`:                                   {"rows[0] is not an object"},
		`[{}, {"row_no": 2, "mr": 1}, {"row_no": 2.5}]`: {
			"rows[0].row_no is missing", "rows[0].mr is missing", "rows[2].row_no is not a whole number", "rows[2].mr is missing"},
	} {
		for _, c := range []call{
			{release, "PUT", set + "/rows", `{"rows": ` + rows + `}`, whatever},
			{release, "POST", "/api/v1/curated", fmt.Sprintf(`{"queue": %d, "rows": %s}`, w.queue.ID, rows), nil},
		} {
			r := w.wants(422, "invalid", c)
			problems, _ := r.field("problems").([]any)
			if len(problems) != len(want) {
				t.Errorf("%s: the problems are %s, want %q", rows, r.body, want)
				continue
			}
			for i, p := range problems {
				said := p.(map[string]any)["message"].(string)
				if !strings.HasPrefix(said, want[i]) {
					t.Errorf("%s: problem %d is %q, want %q", rows, i, said, want[i])
				}
			}
		}
	}
	if after := w.get(set).body; after != before {
		t.Errorf("what was refused changed the set from %s to %s", before, after)
	}
	if list, _ := w.get("/api/v1/curated").field("items").([]any); len(list) != 1 {
		t.Errorf("what was refused made sets: %d are there", len(list))
	}
}

func TestBodiesThatAreNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	set := w.drafts(w.opens(1)...)
	put := func(body string, header map[string]string) call {
		headers := maps.Clone(whatever)
		maps.Copy(headers, header)
		return call{release, "PUT", set + "/rows", body, headers}
	}
	const good = `{"rows": [{"row_no": 1, "mr": 1}]}`
	many := make([]int, 1001)
	for i := range many {
		many[i] = i + 1
	}
	for _, c := range []struct {
		what    string
		status  int
		problem string
		call
	}{
		{"good", 200, "", put(good, nil)},
		{"with a charset", 200, "", put(good, map[string]string{"Content-Type": "application/json; charset=utf-8"})},
		{"no media type", 415, "not-json", put(good, map[string]string{"Content-Type": ""})},
		{"a form", 415, "not-json", put(good, map[string]string{"Content-Type": "application/x-www-form-urlencoded"})},
		{"text", 415, "not-json", put(good, map[string]string{"Content-Type": "text/plain"})},
		{"nothing", 422, "invalid", put("", nil)},
		{"no JSON", 400, "malformed", put("{rows", nil)},
		{"cut off", 400, "malformed", put(good[:len(good)-1], nil)},
		{"more behind", 400, "malformed", put(good+"{}", nil)},
		{"a comma behind", 400, "malformed", put(good+",", nil)},
		{"no UTF-8", 400, "malformed", put("{\"rows\": [], \"\xff\": 1}", nil)},
		{"a list", 422, "invalid", put("[]", nil)},
		{"null", 422, "invalid", put("null", nil)},
		{"rows that are null", 422, "invalid", put(`{"rows": null}`, nil)},
		{"rows that are an object", 422, "invalid", put(`{"rows": {"row_no": 1}}`, nil)},
		{"no rows", 422, "invalid", put(`{}`, nil)},
		{"rows twice", 422, "invalid", put(`{"rows": [], "rows": []}`, nil)},
		{"in capitals", 422, "invalid", put(`{"Rows": []}`, nil)},
		{"an unknown field", 422, "invalid", put(`{"rows": [], "colour": "red"}`, nil)},
		{"a long unknown field", 422, "invalid", put(`{"`+strings.Repeat("x", 5000)+`": 1}`, nil)},
		{"too many rows", 422, "invalid", put(`{"rows": `+rows(many...)+`}`, nil)},
		{"a field for nothing", 422, "invalid", call{release, "POST", set + "/submit", `{"force": true}`, nil}},
		{"a reason that is none", 422, "invalid", call{release, "POST", set + "/reject", `{"reason": 7}`, nil}},
		{"a reason without end", 422, "invalid", call{release, "POST", set + "/reject", `{"reason": "` + strings.Repeat("x", 1001) + `"}`, nil}},
		{"too large", 413, "too-large", put(good+strings.Repeat(" ", 1<<20), nil)},
		{"deep", 422, "invalid", put(strings.Repeat("[", 5000)+strings.Repeat("]", 5000), nil)},
		{"deeper than JSON is read", 400, "malformed", put(strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000), nil)},
		{"an ETag that is none", 400, "malformed", put(good, map[string]string{"If-Match": "7"})},
		{"a weak ETag", 400, "malformed", put(good, map[string]string{"If-Match": `W/"7"`})},
	} {
		r := w.wants(c.status, c.problem, c.call)
		if len(r.body) > 4000 {
			t.Errorf("%s is answered with %d bytes", c.what, len(r.body))
		}
	}
	for body, field := range map[string]string{
		`{}`: "queue", `{"queue": 1.5}`: "queue", `{"queue": 9999, "rows": []}`: "queue", `{"queue": "1", "rows": []}`: "queue",
	} {
		if r := w.wants(422, "invalid", call{release, "POST", "/api/v1/curated", body, nil}); !strings.HasPrefix(r.text("detail"), field+" ") {
			t.Errorf("%s is refused without naming %s: %s", body, field, r.body)
		}
	}
}

// Whatever is sent as rows, the answer keeps to the document, and what is taken is what was sent.
func FuzzRows(f *testing.F) {
	for _, seed := range []string{
		`[{"row_no": 1, "mr": 1}]`, `[{"row_no": 1, "mr": 2}, {"row_no": 1, "mr": 3}]`, `[{"row_no": 1e0, "mr": 1}]`, `[]`, `null`, `[{}]`, `[[]]`, `{"rows": []}`, `[{"row_no": "1"}]`,
		`[{"row_no": 2147483648, "mr": 1}]`, "[{\"row_no\u0000\": 1}]", `[{"row_no": 1, "mr": 1,}]`,
	} {
		f.Add(seed)
	}
	w := newWorld(f)
	set := w.drafts(w.opens(1)...)
	f.Fuzz(func(t *testing.T, list string) {
		w := &world{TB: t, url: w.url, log: w.log}
		r := w.do(call{release, "PUT", set + "/rows", `{"rows": ` + list + `}`, whatever})
		switch r.status {
		case 200:
			var sent []struct {
				RowNo int `json:"row_no"`
				MR    int `json:"mr"`
			}
			if err := json.Unmarshal([]byte(list), &sent); err != nil {
				t.Fatalf("%q was taken: %v", list, err)
			}
			seen := make(map[int]int)
			for _, s := range sent {
				seen[s.RowNo] = s.MR
			}
			kept, _ := r.field("rows").([]any)
			if len(seen) != len(sent) || len(kept) != len(sent) {
				t.Fatalf("%q was taken as %s", list, r.body)
			}
			for _, k := range kept {
				row := k.(map[string]any)
				if n := int(row["row_no"].(float64)); n < 1 || seen[n] != int(row["mr"].(float64)) {
					t.Fatalf("%q was taken as %s", list, r.body)
				}
			}
		case 400, 422:
		default:
			t.Fatalf("%q is answered %d %s", list, r.status, r.body)
		}
	})
}
