package explore

import (
	"bytes"
	"compress/zlib"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost/gitmerge"
)

// disk is a bare repository on disk with the content of one in memory. Ids are git's own on both sides, so objects are simply copied.
type disk struct {
	dir    string
	copied map[string]bool
	refs   map[string]string // as copied last
}

func newDisk(dir string) (*disk, error) {
	out, err := exec.Command("git", "init", "--quiet", "--bare", "--initial-branch=main", dir).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("git init: %w: %s", err, out)
	}
	return &disk{dir: dir, copied: make(map[string]bool)}, nil
}

func (d *disk) remote() bot.GitRemote { return bot.GitRemote{Key: "hub/4711", URL: d.dir} }

// object writes a loose object.
func (d *disk) object(kind string, body []byte) error {
	id := objectID(kind, body)
	if d.copied[id] {
		return nil
	}
	d.copied[id] = true
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, _ = fmt.Fprintf(z, "%s %d\x00", kind, len(body)) // into memory
	_, _ = z.Write(body)
	_ = z.Close()
	path := filepath.Join(d.dir, "objects", id[:2], id[2:])
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, packed.Bytes(), 0o444)
}

// copy brings every commit of a repository in memory to disk, and lets the references there stand where they do here.
func (d *disk) copy(r *repository) error {
	for _, c := range r.ordered {
		if d.copied[c.id] {
			continue
		}
		var tree bytes.Buffer
		for _, path := range slices.Sorted(maps.Keys(c.files)) {
			blob := []byte(c.files[path])
			if err := d.object("blob", blob); err != nil {
				return err
			}
			raw, _ := hex.DecodeString(objectID("blob", blob))
			tree.WriteString("100644 " + path + "\x00")
			tree.Write(raw)
		}
		if err := d.object("tree", tree.Bytes()); err != nil {
			return err
		}
		if err := d.object("commit", []byte(c.raw)); err != nil {
			return err
		}
	}
	for ref, id := range d.refs {
		if r.refs[ref] == "" && id != "" {
			if err := os.Remove(filepath.Join(d.dir, filepath.FromSlash(ref))); err != nil && !os.IsNotExist(err) {
				return err
			}
		}
	}
	d.refs = maps.Clone(r.refs)
	for ref, id := range r.refs {
		path := filepath.Join(d.dir, filepath.FromSlash(ref))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(id+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Git in memory and gitmerge with real git say the same about random histories: trees and commits to the last digit, conflicts with their
// files, fates, what a target contains, what a head changes, and what becomes of pushes.
func TestGitSaysTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(number(t, "EXPLORE_HISTORIES", 12)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 7))
			here := newRepository()
			members := randomHistory(rng, here)
			there, err := newDisk(filepath.Join(t.TempDir(), "origin.git"))
			if err == nil {
				err = there.copy(here)
			}
			if err != nil {
				t.Fatal(err)
			}
			merger, err := gitmerge.New(gitmerge.Options{Dir: t.TempDir(), TmpDir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			compareBuilds(t, rng, here, there, merger, members)
		})
	}
}

// randomHistory fills a repository: a target that moves by commits and merges, and members that begin anywhere, on top of each other too, and merge
// the target or each other.
func randomHistory(rng *rand.Rand, r *repository) []bot.BuildMember {
	n := 0
	write := func(onto *commit) *commit {
		n++
		change := files{fmt.Sprint("file-", rng.IntN(6)): fmt.Sprintf("content %d of a file that is like no other: %x\n", n, rng.Uint64())}
		return r.commit(onto.files.with(change), "Ada <ada@example.org>", time.Unix(int64(1_700_000_000+n), 0), fmt.Sprintf("change %d\n", n), onto)
	}
	join := func(a, b *commit) *commit {
		if a.contains(b) || b.contains(a) {
			return write(a)
		}
		n++
		merged, conflicts := r.merge(a.files, a.past, b.files, b.past)
		for _, path := range conflicts {
			merged[path] = fmt.Sprintf("solved %d %x\n", n, rng.Uint64())
		}
		return r.commit(merged, "Ada <ada@example.org>", time.Unix(int64(1_700_000_000+n), 0), fmt.Sprintf("merge %d\n", n), a, b)
	}
	root := r.commit(files{"README": "app\n", "file-0": "first\n", "file-1": "first too\n"}, "Ada <ada@example.org>", time.Unix(1_700_000_000, 0), "begin\n")
	line := []*commit{root}
	var tips []*commit
	for range 30 {
		any := func() *commit {
			if len(tips) > 0 && rng.IntN(3) == 0 {
				return tips[rng.IntN(len(tips))]
			}
			return line[max(0, len(line)-1-rng.IntN(4))]
		}
		switch rng.IntN(6) {
		case 0:
			line = append(line, write(line[len(line)-1]))
		case 1:
			line = append(line, join(line[len(line)-1], any()))
		case 2, 3:
			tips = append(tips, write(any()))
		default:
			if len(tips) > 0 {
				i := rng.IntN(len(tips))
				if rng.IntN(2) == 0 {
					tips[i] = write(tips[i])
				} else {
					tips[i] = join(tips[i], any())
				}
			}
		}
	}
	if rng.IntN(3) == 0 {
		tips = append(tips, r.commit(files{"other": "no relation\n"}, "Ada <ada@example.org>", time.Unix(1_700_000_000, 0), "elsewhere\n"))
	}
	rng.Shuffle(len(tips), func(i, j int) { tips[i], tips[j] = tips[j], tips[i] })
	r.refs[heads(target)] = line[len(line)-1].id
	var members []bot.BuildMember
	for i, c := range tips[:min(len(tips), 8)] {
		r.refs[pullRef(i+1)] = c.id
		members = append(members, bot.BuildMember{OperationID: fmt.Sprint("op-", i+1), Number: i + 1, HeadSHA: c.id, HeadRef: pullRef(i + 1), Title: fmt.Sprint("Change ", i+1)})
	}
	if len(members) > 2 {
		members[1].HeadSHA = root.id // pinned before it moved
	}
	return members
}

func compareBuilds(t *testing.T, rng *rand.Rand, here *repository, there *disk, real bot.Git, members []bot.BuildMember) {
	t.Helper()
	ctx, model := t.Context(), builder{here}
	spec := bot.BuildSpec{BatchID: 7, Token: "0a1b2c3d", CreatedAt: time.Unix(1_750_000_000, 0), Target: target, Members: members}
	want, err := real.Build(ctx, there.remote(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	got, err := model.Build(ctx, there.remote(), spec)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "build", got.Result(), want.Result())
	for _, m := range members {
		if got.Result().Members[m.Number-1].Fate != bot.FateMerged {
			continue // asked of nobody else
		}
		a, errA := got.Contribution(ctx, m)
		b, errB := want.Contribution(ctx, m)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		slices.Sort(a.Commits)
		slices.Sort(b.Commits)
		if len(here.bases(here.at(heads(target)).past, here.commits[m.HeadSHA].past)) > 1 {
			a.Files, b.Files = nil, nil // each chooses one
		}
		slices.Sort(b.Files)
		same(t, fmt.Sprint("contribution of ", m.Number), fmt.Sprint(a), fmt.Sprint(b))
	}
	question := bot.InspectSpec{Target: target}
	for _, c := range here.ordered {
		if rng.IntN(2) == 0 || here.at(heads(target)).contains(c) {
			question.Heads = append(question.Heads, c.id)
		}
		if here.at(heads(target)).contains(c) {
			question.Trees = append(question.Trees, c.id)
		}
	}
	inspect := func() {
		a, errA := model.Inspect(ctx, there.remote(), question)
		b, errB := real.Inspect(ctx, there.remote(), question)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		same(t, "inspection", a, b)
	}
	inspect()
	head, base := got.Result().HeadSHA, got.Result().BaseSHA
	push := func(name string, do func(g bot.Git, b bot.Build) (bot.PushOutcome, error)) {
		t.Helper()
		a, errA := do(model, got)
		b, errB := do(real, want)
		if (errA == nil) != (errB == nil) {
			t.Fatalf("%s: error %v, git says %v", name, errA, errB)
		}
		same(t, name, a, b)
	}
	branch := "batchbot/7-0a1b2c3d/main"
	push("push", func(_ bot.Git, b bot.Build) (bot.PushOutcome, error) { return b.Push(ctx, branch, nil) })
	push("push again", func(_ bot.Git, b bot.Build) (bot.PushOutcome, error) { return b.Push(ctx, branch, []string{head}) })
	push("push of the base where a head is that nobody knows", func(_ bot.Git, b bot.Build) (bot.PushOutcome, error) {
		return b.PushBase(ctx, branch, nil)
	})
	push("fast-forward from elsewhere", func(g bot.Git, _ bot.Build) (bot.PushOutcome, error) {
		return g.FastForward(ctx, there.remote(), target, here.ordered[0].id, head)
	})
	push("fast-forward", func(g bot.Git, _ bot.Build) (bot.PushOutcome, error) {
		return g.FastForward(ctx, there.remote(), target, base, head)
	})
	push("fast-forward once more", func(g bot.Git, _ bot.Build) (bot.PushOutcome, error) {
		return g.FastForward(ctx, there.remote(), target, base, head)
	})
	inspect()
	push("deletion of a branch that stands elsewhere", func(g bot.Git, _ bot.Build) (bot.PushOutcome, error) {
		return g.DeleteBranch(ctx, there.remote(), branch, []string{here.ordered[0].id})
	})
	push("deletion", func(g bot.Git, _ bot.Build) (bot.PushOutcome, error) {
		return g.DeleteBranch(ctx, there.remote(), branch, []string{head})
	})
	push("deletion of what is gone", func(g bot.Git, _ bot.Build) (bot.PushOutcome, error) {
		return g.DeleteBranch(ctx, there.remote(), branch, []string{head})
	})
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s is\n%+v\nwith git it is\n%+v", what, got, want)
	}
}
