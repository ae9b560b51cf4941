package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"pintle.dev/pintle/sdk/contract"
)

func TestVersionsOfABuild(t *testing.T) {
	info := func(revision, modified string) *debug.BuildInfo {
		out := &debug.BuildInfo{Deps: []*debug.Module{{Path: "k8s.io/apiserver", Version: "v0.36.0"}}}
		if revision != "" {
			out.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: modified}}
		}
		return out
	}
	tagged := info("abc", "false")
	tagged.Main.Version = "v1.2.3"
	tests := []struct {
		name            string
		info            *debug.BuildInfo
		linked          string
		version, commit string
	}{
		{"nothing known", nil, "", "(devel)", "unknown"},
		{"by the Go tool", info("abc", "false"), "", "(devel)", "abc"},
		{"by the Go tool, with changes", info("abc", "true"), "", "(devel)", "abc-dirty"},
		{"by make", info("", ""), "def\n", "(devel)", "def"},
		{"make wins", info("abc", "false"), "def-dirty", "(devel)", "def-dirty"},
		{"a tag", tagged, "", "v1.2.3", "abc"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := versionsOf(test.info, test.linked)
			if v.Version != test.version || v.Commit != test.commit {
				t.Errorf("version %q, commit %q; want %q, %q", v.Version, v.Commit, test.version, test.commit)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	run := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		cmd := newVersionCommand()
		cmd.SetOut(&out)
		cmd.SetArgs(args)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.Execute(); err != nil {
			return "error: " + err.Error()
		}
		return out.String()
	}
	line := run()
	if !strings.HasPrefix(line, "pintle ") || strings.Count(line, "\n") != 1 ||
		!strings.Contains(line, fmt.Sprintf("plugin contract %s, ", contractRange{contract.Min, contract.Max})) {
		t.Errorf("%q", line)
	}
	var j, y versions
	if err := json.Unmarshal([]byte(run("-o", "json")), &j); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(run("-o", "yaml")), &y); err != nil {
		t.Fatal(err)
	}
	if j != y || j.Go == "" || j.Platform == "" || j.Version == "" || j.Commit == "" || j.Contract.Newest != contract.Max {
		t.Errorf("%+v and %+v", j, y)
	}
	if got := run("-o", "xml"); !strings.Contains(got, "want table, wide, json or yaml") {
		t.Error(got)
	}
}
