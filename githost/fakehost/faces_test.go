package fakehost_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/batchbot/batchbot/githost/fakehost"
)

// What people do means the same on both hosts: the same verbs leave the same
// merge requests, branches and trees.
func TestTheSameVerbsLeaveTheSameWorldOnBothFaces(t *testing.T) {
	t.Parallel()
	const repo = "team/app"
	play := func(h *fakehost.Host, bot string) (fakehost.State, string) {
		must(t, h.AddRepository(fakehost.NewRepository{
			Owner: "team", Name: "app", Permissions: map[string]string{"ada": fakehost.RoleAdmin, "bob": fakehost.RoleWrite, "cleo": fakehost.RoleWrite},
		}))
		must(t, h.SetRules(repo, "main", fakehost.Rules{RequiredApprovals: 1, DismissStale: true}))
		open := func(author, branch string, fork bool) int {
			return get(h.OpenMR(repo, fakehost.NewMR{Author: author, Head: branch, Title: "Add " + branch, Fork: fork, Files: map[string]string{branch + ".txt": "x\n"}}))(t)
		}
		one, two, three, four := open("bob", "one", false), open("cleo", "two", false), open("bob", "three", true), open("bob", "four", false)
		get(h.Comment(repo, one, "bob", "please\n/batch"))(t)
		get(h.Review(repo, one, "cleo", fakehost.Approved, ""))(t)
		get(h.Review(repo, two, "bob", fakehost.Approved, ""))(t)
		get(h.PushTo(repo, two, map[string]string{"two.txt": "2\n"}))(t)
		must(t, h.SetDraft(repo, four, "bob", true))
		if _, err := h.MergeMR(repo, two, bot); err == nil {
			t.Error("merged without an approval")
		}
		if _, err := h.MergeMR(repo, four, bot); err == nil {
			t.Error("merged a draft")
		}
		get(h.MergeMR(repo, one, bot))(t)
		head := get(h.MR(repo, three))(t).Head
		get(h.Commit(repo, "batch", "main", "ada", "Batch", map[string]string{"batch.txt": "x\n"}))(t)
		get(h.Review(repo, three, "ada", fakehost.Approved, ""))(t)
		get(h.MergeMR(repo, three, "ada"))(t)
		if in := get(h.Contains(repo, "main", head))(t); !in {
			t.Error("what was merged is not in the target")
		}
		must(t, h.CloseMR(repo, four, "bob"))
		must(t, h.SetDraft(repo, four, "bob", false))
		must(t, h.ReopenMR(repo, four, "bob"))
		var trees []string
		for _, c := range get(h.Log(repo, "main"))(t) {
			trees = append(trees, c.Tree)
		}
		return get(h.State(repo))(t), strings.Join(trees, "\n")
	}
	hub, hubTrees := play(newHost(t), "batchbot[bot]")
	ours, labTrees := play(newGitLab(t), botLogin)
	if hubTrees != labTrees {
		t.Errorf("main's trees differ:\n%s\nand\n%s", hubTrees, labTrees)
	}
	if a, b := told(hub), told(ours); !reflect.DeepEqual(a, b) {
		t.Errorf("the hub says\n%s\nthe lab says\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
}

// told is what of a state does not hang on ids, names of bots and times.
func told(s fakehost.State) []string {
	var lines []string
	for _, m := range s.MergeRequests {
		line := fmt.Sprintf("%d by %s, %s, draft %v, %s into %s", m.Number, m.Author, m.State, m.Draft, m.Branch, m.Base)
		for _, r := range m.Reviews {
			line += ", " + r.Author + " " + r.State
		}
		for _, c := range m.Comments {
			line += ", " + c.Author + " says " + c.Body
		}
		lines = append(lines, line)
	}
	return append(lines, fmt.Sprint(len(s.Branches), " branches"))
}
