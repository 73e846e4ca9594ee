package gitmerge_test

import (
	"fmt"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

// BenchmarkBuild builds batches on a target of 1,000 files: fetch, merges and quarantine, without the push. ms/member is the whole
// build divided by its members.
func BenchmarkBuild(b *testing.B) {
	for _, members := range []int{10, 100} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			o, i := newOrigin(b), newInstance(b)
			content := files{}
			for n := range 1000 {
				content[fmt.Sprintf("dir%d/sub%d/file%d", n%10, n%7, n)] = poem(n%60, fmt.Sprint("file ", n))
			}
			root := o.commit("refs/heads/main", content)
			o.commit("refs/heads/main", files{"later": "x\n"}, root)
			var all []bot.BuildMember
			for n := 1; n <= members; n++ {
				all = append(all, o.pull(n, files{
					fmt.Sprintf("dir%d/sub%d/file%d", n%10, n%7, n): poem(7, fmt.Sprint("change ", n)),
					fmt.Sprintf("dir0/new%d", n):                    "x\n",
					fmt.Sprintf("dir1/new%d", n):                    "x\n",
				}, root))
			}
			i.build(o, spec(all...)) // fetches
			b.ResetTimer()
			for range b.N {
				built, err := i.Build(b.Context(), o.remote(), spec(all...))
				if err != nil {
					b.Fatal(err)
				}
				if err := built.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N*members), "ms/member")
		})
	}
}
