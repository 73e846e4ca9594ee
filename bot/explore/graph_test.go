package explore

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// graph is the commits of one repository in memory. Ids of blobs, trees and commits are git's own, so that a repository on disk with the same
// content has the same ids. Files lie in the root folder and are of one line: two changes of one file conflict, and nothing is
// ever merged inside of a file.
type graph struct {
	commits map[string]*commit
	ordered []*commit // parents before children
	blobs   map[string]string
}

type files map[string]string // path → content

type commit struct {
	id      string
	index   int // in graph.ordered
	tree    string
	files   files
	parents []*commit
	past    set // itself and all that it descends from
	raw     string
}

func newGraph() *graph {
	return &graph{commits: make(map[string]*commit), blobs: make(map[string]string)}
}

// set is a set of commits by index.
type set []uint64

func (s set) has(i int) bool { return i/64 < len(s) && s[i/64]&(1<<(i%64)) != 0 }

func (s set) with(o set) set {
	out := slices.Clone(s)
	for i, word := range o {
		if i == len(out) {
			out = append(out, 0)
		}
		out[i] |= word
	}
	return out
}

func (s set) add(i int) set {
	for len(s) <= i/64 {
		s = append(s, 0)
	}
	s[i/64] |= 1 << (i % 64)
	return s
}

// each calls do for every member, the youngest first, until it returns false.
func (s set) each(do func(i int) bool) {
	for w, word := range slices.Backward(s) {
		for word != 0 {
			bit := 63 - bits.LeadingZeros64(word)
			word &^= 1 << bit
			if !do(w*64 + bit) {
				return
			}
		}
	}
}

func (s set) minus(o set) set {
	out := slices.Clone(s)
	for i := range out {
		if i < len(o) {
			out[i] &^= o[i]
		}
	}
	return out
}

func (s set) meets(o set) bool {
	for i := range min(len(s), len(o)) {
		if s[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

func objectID(kind string, body []byte) string {
	hash := sha1.New()
	fmt.Fprintf(hash, "%s %d\x00", kind, len(body))
	hash.Write(body)
	return hex.EncodeToString(hash.Sum(nil))
}

// treeID is git's id of a root folder with these files.
func (g *graph) treeID(f files) string {
	var body bytes.Buffer
	for _, path := range slices.Sorted(maps.Keys(f)) {
		blob, known := g.blobs[f[path]]
		if !known {
			blob = objectID("blob", []byte(f[path]))
			g.blobs[f[path]] = blob
		}
		raw, _ := hex.DecodeString(blob)
		body.WriteString("100644 " + path + "\x00")
		body.Write(raw)
	}
	return objectID("tree", body.Bytes())
}

// commit makes a commit, or returns the one that is there: the same content has the same id.
func (g *graph) commit(f files, who string, when time.Time, message string, parents ...*commit) *commit {
	tree := g.treeID(f)
	var body bytes.Buffer
	body.WriteString("tree " + tree + "\n")
	for _, p := range parents {
		body.WriteString("parent " + p.id + "\n")
	}
	fmt.Fprintf(&body, "author %s %d +0000\ncommitter %s %d +0000\n\n%s", who, when.Unix(), who, when.Unix(), message)
	id := objectID("commit", body.Bytes())
	if known := g.commits[id]; known != nil {
		return known
	}
	return g.add(&commit{id: id, tree: tree, files: f, parents: parents, raw: body.String()})
}

// add gives a commit its place among the others.
func (g *graph) add(c *commit) *commit {
	c.index = len(g.ordered)
	for _, p := range c.parents {
		c.past = c.past.with(p.past)
	}
	c.past = c.past.add(c.index)
	g.commits[c.id] = c
	g.ordered = append(g.ordered, c)
	return c
}

// contains reports whether c descends from the commit with this id, or is it.
func (c *commit) contains(other *commit) bool { return other != nil && c.past.has(other.index) }

// bases lists the best common ancestors of two histories.
func (g *graph) bases(a, b set) []*commit {
	common := a.minus(a.minus(b))
	var best []*commit
	var covered set
	common.each(func(i int) bool {
		if !covered.has(i) {
			best = append(best, g.ordered[i])
			covered = covered.with(g.ordered[i].past)
		}
		return true
	})
	return best
}

// merge merges two trees whose histories are known, path by path. Of several best common ancestors the merge is the base, as git does it.
func (g *graph) merge(left files, leftPast set, right files, rightPast set) (merged files, conflicts []string) {
	base := files{}
	var past set
	for i, b := range g.bases(leftPast, rightPast) {
		if i == 0 {
			base, past = b.files, b.past
			continue
		}
		base, _ = g.merge(base, past, b.files, b.past)
		past = past.with(b.past)
	}
	merged = make(files)
	paths := make(map[string]bool)
	for _, f := range []files{base, left, right} {
		for path := range f {
			paths[path] = true
		}
	}
	for path := range paths {
		b, l, r := base[path], left[path], right[path] // empty: not there
		got := l
		switch {
		case l == r, b == r:
		case b == l:
			got = r
		default:
			conflicts = append(conflicts, path)
			got = "<<<" + cmp.Or(l, "gone") + ">>>" + cmp.Or(r, "gone")
		}
		if got != "" {
			merged[path] = got
		}
	}
	slices.Sort(conflicts)
	return merged, conflicts
}

// with returns the files with some changed; empty content deletes.
func (f files) with(changes files) files {
	out := maps.Clone(f)
	for path, content := range changes {
		if content == "" {
			delete(out, path)
		} else {
			out[path] = content
		}
	}
	return out
}

func (f files) String() string {
	var parts []string
	for _, path := range slices.Sorted(maps.Keys(f)) {
		parts = append(parts, path+"="+strings.TrimSpace(f[path]))
	}
	return strings.Join(parts, " ")
}
