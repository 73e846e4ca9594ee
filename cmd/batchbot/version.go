package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the release build (-ldflags "-X main.version=v1.2.3").
var version = ""

// versionInfo says which program this is.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes that were not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readVersion() versionInfo {
	v := versionInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if ok {
		if v.Version == "" {
			v.Version = build.Main.Version
		}
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = "development"
	}
	return v
}

func (s shell) versionCommand() *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print which version this is"}
	asJSON := c.Flags().Bool("json", false, "print one JSON object")
	c.RunE = func(*cobra.Command, []string) error {
		v := readVersion()
		if *asJSON {
			return json.NewEncoder(s.stdout).Encode(v)
		}
		fmt.Fprintf(s.stdout, "batchbot %s", v.Version)
		if v.Commit != "" {
			fmt.Fprintf(s.stdout, " (%.12s)", v.Commit)
		}
		fmt.Fprintf(s.stdout, ", %s, %s\n", v.Go, v.Platform)
		return nil
	}
	return c
}
