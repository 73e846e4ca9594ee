package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/batchbot/batchbot/bot"
)

// maxBody is the largest body that is read, in bytes: a set of the most rows takes a twentieth.
const maxBody = 1 << 20

// readBody reads the whole body. Where there is one, it is declared as JSON.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *problem) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, tooLarge.because(fmt.Sprintf("the body has more than %d bytes", maxBody))
		}
		return nil, malformed.because("the body broke off before its end")
	}
	if len(body) == 0 {
		return nil, nil
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, notJSON.because("send the body with Content-Type: application/json")
	}
	return body, nil
}

// object is a JSON object by its keys, with where it stands in the request.
type object struct {
	where  string
	fields map[string]json.RawMessage
}

// parse reads a body as one object with these keys and no others. An empty body is an object without any.
func parse(body []byte, keys ...string) (object, *problem) {
	if len(body) == 0 {
		return object{}, nil
	}
	if !utf8.Valid(body) {
		return object{}, malformed.because("the body is not UTF-8")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil { // also when anything follows the value
		return object{}, malformed.because("the body is not one JSON value: " + err.Error())
	}
	return objectOf(whole, "", keys...)
}

// objectOf reads a valid value as an object. encoding/json would take keys in any case and the last of two alike, which hides mistakes.
func objectOf(value json.RawMessage, where string, keys ...string) (object, *problem) {
	o := object{where: where, fields: make(map[string]json.RawMessage)}
	d := json.NewDecoder(bytes.NewReader(value))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return o, refuse(o.at(""), "is not an object")
	}
	for d.More() {
		token, err := d.Token()
		key, ok := token.(string)
		var field json.RawMessage
		if err != nil || !ok || d.Decode(&field) != nil {
			return o, refuse(o.at(""), "is not JSON")
		}
		switch _, twice := o.fields[key]; {
		case !slices.Contains(keys, key):
			return o, refuse(o.at(shown(key)), "is not known here: "+expected(keys))
		case twice:
			return o, refuse(o.at(key), "is there twice")
		}
		o.fields[key] = field
	}
	return o, nil
}

// shown is a key that a stranger chose, bounded.
func shown(key string) string {
	const most = 60
	if runes := []rune(key); len(runes) > most {
		key = string(runes[:most]) + "…"
	}
	return strconv.Quote(key)
}

func expected(keys []string) string {
	if len(keys) == 0 {
		return "no field is"
	}
	return "the fields are " + strings.Join(keys, ", ")
}

// at names a field for people and programs.
func (o object) at(key string) string {
	switch {
	case o.where == "" && key == "":
		return "body"
	case o.where == "":
		return key
	case key == "":
		return o.where
	}
	return o.where + "." + key
}

// refuse is the problem of one field.
func refuse(field, message string) *problem {
	return invalid.because(field+" "+message, finding{Field: field, Kind: "field", Message: field + " " + message})
}

// has reports whether the key is there.
func (o object) has(key string) bool {
	_, ok := o.fields[key]
	return ok
}

// integer reads a whole number as it is meant: 1.5, 1e0, "1" and null are none.
func (o object) integer(key string, least, most int64) (int64, *problem) {
	field, ok := o.fields[key]
	if !ok {
		return 0, refuse(o.at(key), "is missing")
	}
	text := string(bytes.TrimSpace(field))
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text {
		return 0, refuse(o.at(key), "is not a whole number")
	}
	if n < least || n > most {
		return 0, refuse(o.at(key), fmt.Sprintf("is %d, which is not within %d and %d", n, least, most))
	}
	return n, nil
}

// text reads a string of at most so many characters; fewest 0 lets it be left out.
func (o object) text(key string, fewest, most int) (string, *problem) {
	field, ok := o.fields[key]
	if !ok && fewest == 0 {
		return "", nil
	}
	if !ok {
		return "", refuse(o.at(key), "is missing")
	}
	if field[0] != '"' {
		return "", refuse(o.at(key), "is not text")
	}
	var s string
	if err := json.Unmarshal(field, &s); err != nil {
		return "", refuse(o.at(key), "is not text")
	}
	if n := utf8.RuneCountInString(s); n < fewest || n > most || strings.ContainsRune(s, 0) {
		return "", refuse(o.at(key), fmt.Sprintf("has %d characters, or a NUL among them: write %d to %d", n, fewest, most))
	}
	return s, nil
}

// moment reads a time of RFC 3339; it may be left out and is zero then.
func (o object) moment(key string) (time.Time, *problem) {
	s, p := o.text(key, 0, 40)
	if p != nil || !o.has(key) {
		return time.Time{}, p
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.Year() < 1971 || t.Year() > 9998 {
		return time.Time{}, refuse(o.at(key), "is not a time as RFC 3339 writes it, such as 2030-01-31T15:04:05Z")
	}
	return t.UTC(), nil
}

// most a row number or the number of a merge request can be.
const mostNumber = 1<<31 - 1

// rows reads the complete row set of a curated batch. Every row that no table could hold is named, before anything is written: a unique key does
// not stop a row number that is missing.
func (o object) rows(key string) ([]bot.CuratedRow, *problem) {
	field, ok := o.fields[key]
	if !ok {
		return nil, refuse(o.at(key), "is missing")
	}
	var list []json.RawMessage
	if field[0] != '[' || json.Unmarshal(field, &list) != nil {
		return nil, refuse(o.at(key), "is not a list")
	}
	if len(list) > bot.MaxCurated {
		return nil, refuse(o.at(key), fmt.Sprintf("has %d rows, and %d is the most", len(list), bot.MaxCurated))
	}
	rows := make([]bot.CuratedRow, 0, len(list))
	var found []finding
	seen := make(map[int]int, len(list)) // row number → index
	for i, value := range list {
		row, problems := rowOf(value, fmt.Sprintf("%s[%d]", o.at(key), i))
		if first, twice := seen[row.RowNo]; row.RowNo != 0 && twice {
			f := at(fmt.Sprintf("%s[%d].row_no", o.at(key), i), fmt.Sprintf("the row number %d is that of %s[%d] as well", row.RowNo, o.at(key), first))
			problems = append(problems, f)
		} else if row.RowNo != 0 {
			seen[row.RowNo] = i
		}
		for _, f := range problems {
			f.Row, f.MR, f.Kind = row.RowNo, row.Number, string(bot.ProblemRows)
			found = append(found, f)
		}
		rows = append(rows, row)
	}
	if len(found) > 0 {
		return nil, invalid.because(found[0].Message, found...)
	}
	return rows, nil
}

// rowOf reads one row. What can be read of it is returned with what cannot.
func rowOf(value json.RawMessage, where string) (row bot.CuratedRow, found []finding) {
	o, p := objectOf(value, where, "row_no", "mr")
	if p != nil {
		return row, []finding{at(p.Problems[0].Field, p.Detail)}
	}
	for _, f := range []struct {
		key string
		to  *int
	}{{"row_no", &row.RowNo}, {"mr", &row.Number}} {
		n, p := o.integer(f.key, 1, mostNumber)
		if p != nil {
			found = append(found, at(o.at(f.key), p.Detail))
		}
		*f.to = int(n)
	}
	return row, found
}
