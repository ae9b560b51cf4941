package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The authorities of a node's clients are read with a kubeconfig alone, within bounds.
func TestClientCAFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, size int) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte("{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"is for --kubeconfig": {"--client-ca-file", file("a", 1)},
		"no such file":        {"--kubeconfig", kubeconfig, "--client-ca-file", filepath.Join(dir, "none")},
		"does not contain":    {"--kubeconfig", kubeconfig, "--client-ca-file", file("b", 1)},
		"more than 1048576":   {"--kubeconfig", kubeconfig, "--client-ca-file", file("c", 1<<20+1)},
	} {
		cmd := newNodeCommand()
		cmd.SetArgs(append([]string{"--config", filepath.Join(dir, "none.yaml")}, args...))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "client-ca-file") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// What joins is read from a file or from standard input, within bounds, and no error has it.
func TestJoinFile(t *testing.T) {
	const secret = "0123456789abcdef"
	argument := "abcdef." + secret + "@192.0.2.10:6443/sha256:" + strings.Repeat("0", 64)
	dir := t.TempDir()
	file := filepath.Join(dir, "join")
	for name, tc := range map[string]struct {
		file, content, stdin string
		want                 string // part of the error
	}{
		"a file":            {file: file, content: argument + "\n"},
		"without a newline": {file: file, content: argument},
		"standard input":    {file: "-", stdin: "  " + argument + "\r\n"},
		"no file":           {file: filepath.Join(dir, "none"), want: "no such file"},
		"a folder":          {file: dir, want: "is a directory"},
		"empty":             {file: file, want: "is empty"},
		"no input":          {file: "-", stdin: "\n", want: "is empty"},
		"large":             {file: file, content: strings.Repeat(argument+"\n", 100), want: "more than 4096 bytes"},
		"without an end":    {file: "-", stdin: strings.Repeat(" ", maxJoin) + argument, want: "more than 4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := readJoin(tc.file, strings.NewReader(tc.stdin))
			if tc.want == "" {
				if err != nil || got != argument {
					t.Errorf("%q, %v", got, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
	for name, args := range map[string][]string{
		"--join too":       {"--join-file", file, "--join", argument},
		"--kubeconfig too": {"--join-file", file, "--kubeconfig", file},
		"no argument":      {"--join-file", filepath.Join(dir, "none")},
	} {
		cmd := newNodeCommand()
		cmd.SetArgs(append([]string{"--config", filepath.Join(dir, "none.yaml")}, args...))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "join-file") || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
