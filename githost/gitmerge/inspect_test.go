package gitmerge_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

func TestInspect(t *testing.T) {
	t.Parallel()
	o, builder, other := newOrigin(t), newInstance(t), newInstance(t)
	root := o.commit("refs/heads/main", files{"a": "0\n"})
	landed, waiting := o.pull(1, files{"b": "1\n"}, root), o.pull(2, files{"c": "1\n"}, root)
	b := builder.build(o, spec(landed))
	builder.push(b, batchBranch)
	if _, err := builder.FastForward(t.Context(), o.remote(), "main", root, b.Result().HeadSHA); err != nil {
		t.Fatal(err)
	}
	builder.build(o, spec(waiting)) // so that this mirror knows a head that is not in the target

	nowhere := strings.Repeat("1", 40)
	for name, i := range map[string]instance{"an instance that built": builder, "one that did not": other} {
		found, err := i.Inspect(t.Context(), o.remote(), bot.InspectSpec{
			Target: "main",
			Heads:  []string{landed.HeadSHA, waiting.HeadSHA, b.Result().HeadSHA, nowhere},
			Trees:  []string{b.Result().HeadSHA, nowhere},
		})
		if err != nil {
			t.Fatal(name, err)
		}
		if found.Tip != b.Result().HeadSHA {
			t.Errorf("%s: tip %s", name, found.Tip)
		}
		if want := map[string]bool{landed.HeadSHA: true, waiting.HeadSHA: false, b.Result().HeadSHA: true, nowhere: false}; !maps.Equal(found.Contained, want) {
			t.Errorf("%s: contained %v, want %v", name, found.Contained, want)
		}
		if want := map[string]string{b.Result().HeadSHA: b.Result().TreeSHA}; !maps.Equal(found.Trees, want) {
			t.Errorf("%s: trees %v, want %v", name, found.Trees, want)
		}
	}

	t.Run("a target that moved backwards no longer contains what it did", func(t *testing.T) {
		o.git("update-ref", "refs/heads/main", root)
		found, err := builder.Inspect(t.Context(), o.remote(), bot.InspectSpec{Target: "main", Heads: []string{landed.HeadSHA}})
		if err != nil || found.Tip != root || found.Contained[landed.HeadSHA] {
			t.Errorf("found %+v, %v", found, err)
		}
	})
	t.Run("a target that is gone", func(t *testing.T) {
		o.git("update-ref", "-d", "refs/heads/main")
		if _, err := builder.Inspect(t.Context(), o.remote(), bot.InspectSpec{Target: "main"}); !errors.Is(err, bot.ErrNotFound) {
			t.Errorf("error %v, want bot.ErrNotFound", err)
		}
	})
}

func TestInspectTidiesAMirrorWithoutLosingAnything(t *testing.T) {
	t.Parallel()
	o, i := newOrigin(t), newInstance(t)
	head := o.commit("refs/heads/main", files{"a": "0\n"})
	dropped := o.pull(1, files{"b": "0\n"}, head).HeadSHA
	i.build(o, spec(member(1, dropped)))
	runGit(t, "", "--git-dir="+i.mirror(), "repack", "-q", "-d")
	o.pull(1, files{"c": "0\n"}, head) // the mirror's reference leaves dropped behind
	i.build(o, spec(member(1, dropped)))
	for range 22 {
		head = o.commit("refs/heads/main", files{"a": head}, head)
		i.build(o, spec())
		runGit(t, "", "--git-dir="+i.mirror(), "repack", "-q", "-d") // one more pack
	}
	packs := func() int {
		found, _ := filepath.Glob(filepath.Join(i.mirror(), "objects/pack/*.pack"))
		return len(found)
	}
	before := packs()
	// Another test's git that is just being started holds every lock of this process for a moment, and a mirror whose lock is taken is left for the next time.
	after := before
	for tries := 0; after > 5 && tries < 50; tries++ {
		found, err := i.Inspect(t.Context(), o.remote(), bot.InspectSpec{Target: "main"})
		if err != nil || found.Tip != head {
			t.Fatal(found, err)
		}
		after = packs()
	}
	if before < 20 || after > 5 {
		t.Errorf("%d packs became %d", before, after)
	}
	if _, err := os.Stat(filepath.Join(i.mirror(), "objects/info/commit-graphs")); err != nil {
		t.Error("no commit graph:", err)
	}
	runGit(t, "", "--git-dir="+i.mirror(), "cat-file", "-e", dropped+"^{tree}")
	runGit(t, "", "--git-dir="+i.mirror(), "fsck", "--strict")
}
