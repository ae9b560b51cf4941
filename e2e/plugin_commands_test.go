package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestPluginCommands: what an operator gets wrong is one line that says what to do,
// with the exit code that the help names; each form of output is what it says, and
// nothing but that goes into a pipe; and a shell completes names and values.
func TestPluginCommands(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", work).Run() })
	data := filepath.Join(work, "data")
	built := versioned(t, "1.0.0", "wasm")
	config := catalogConfig(t, "")
	replace(t, config, "predicates: [HostName, PodFitsResources]", "predicates: [HostName, PodFitsResources], priorities: [{name: LeastRequestedPriority}]")
	e := minimal(t, config, data)
	e.placer(t)
	// run is a command on this cluster and its catalog.
	run := func(line string, more ...string) (result, int) {
		args := append(strings.Fields(line), more...)
		if slices.Contains([]string{"install", "verify", "remove", "gc"}, args[0]) {
			args = append(args, "--data", data)
		}
		return e.plugin(t, args...)
	}

	t.Run("wrong", func(t *testing.T) {
		for _, c := range []struct {
			line string
			code int
			says string
		}{
			{"list --output nosuch", 2, "want table, wide, json or yaml"},
			{"list here", 2, "see pintle plugin list --help"},
			{"list --data " + work, 2, "name its data directory with --data"},
			{"describe", 2, "see pintle plugin describe --help"},
			{"describe Nosuch", 4, "pintle plugin list shows what there is"},
			{"enable Nosuch", 4, "pintle plugin list shows what there is"},
			{"enable HostName --profile nosuch", 3, `plugin HostName: refused: spec.profiles[0]: Unsupported value: "nosuch": supported values: "default-scheduler"`},
			{"enable HostName --weight 3", 3, "spec.weight: Forbidden: may only be specified for priorities"},
			{"enable LeastRequestedPriority --weight 0", 2, "want 1 or more"},
			{"enable HostName --timeout soon", 2, "see pintle plugin enable --help"},
			{"disable HostName --profile nosuch", 1, "profile nosuch does not use it; these do: default-scheduler"},
			{"upgrade classic --version 9", 3, "version 9 is not installed"},
			{"upgrade classic --digest nosuch", 3, "must be sha256: and 64 hexadecimal digits"},
			{"rollback classic", 1, "no former version is remembered"},
			{"logs Nosuch", 4, "pintle plugin list shows what there is"},
			{"logs classic --tail -3", 2, "must be at least 0"},
			{"shadow HostName", 2, "name a candidate with --version, --digest or --path"},
			{"shadow HostName --path x --version 1", 2, "see pintle plugin shadow --help"},
			{"shadow HostName --version 9", 3, "refused: the candidate cannot run: plugin bundle classic: version 9 is not installed"},
			{"shadow Nosuch --version 9", 4, "pintle plugin list shows what there is"},
			{"diff HostName", 1, "plugin HostName has no candidate; pintle plugin shadow HostName names one"},
			{"diff Nosuch", 4, "pintle plugin list shows what there is"},
			{"install " + work, 1, "the folder has no manifest.yaml; name the folder of a bundle"},
			{"install nosuch", 1, "neither a folder nor a file, nor an OCI reference"},
			{"install localhost/plugins/quiet", 1, "names neither tag nor digest; add one"},
			{"install " + e.Kubeconfig, 3, "package refused"},
			{"install " + built + " --signatures maybe", 2, "want off, warn or require"},
			{"install " + built + " --signatures require", 3, "no public key is known"},
			{"install " + built + " --enable --beside", 2, "see pintle plugin install --help"},
			{"install --enable", 2, "--enable needs a SOURCE"},
			{"verify nosuch", 4, "plugin bundle nosuch is not installed; "},
			{"remove classic", 4, "plugin bundle classic is not installed; "},
			{"seal " + work, 1, "plugin seal: bundle folder " + work + ": open "},
			{"bench nosuch", 2, "nosuch is neither a folder with a manifest nor installed"},
			{"gc now", 2, "see pintle plugin gc --help"},
			{"package " + built, 2, "name a file with -f, or a registry with --push"},
			{"package " + work + " -f " + work + "/x.tar.gz", 1, "the folder has no manifest.yaml"},
		} {
			r, code := run(c.line)
			if code != c.code || !strings.Contains(r.stderr, c.says) || strings.Count(r.stderr, "\n") != 1 || r.stdout != "" {
				t.Errorf("plugin %s ends with %d, want %d and one line with %q:\n%s%s", c.line, code, c.code, c.says, r.stdout, r.stderr)
			}
		}
		// A candidate that cannot run leaves everything as it was.
		if out := e.kubectl(t, "get", "plugin", "HostName", "-o", "jsonpath={.spec.shadow}"); out != "" {
			t.Errorf("spec.shadow is %s", out)
		}
	})

	if r, code := run("install " + built + " --enable"); code != 0 {
		t.Fatalf("install ends with %d: %s", code, r.stderr)
	}

	t.Run("output", func(t *testing.T) {
		for _, c := range []struct{ line, head string }{
			{"list", "NAME "}, {"describe HostName", "NAME "}, {"enable HostName", "HostName enabled"}, {"disable HostName", "HostName disabled"}, {"enable HostName", "HostName enabled"},
			{"install " + built, "BUNDLE "}, {"verify versioned", "BUNDLE "}, {"verify " + built, "BUNDLE "}, {"logs classic", "20"},
			{"shadow Picky --version 1.0.0", "a candidate of Picky runs beside it"}, {"diff Picky", "BUNDLE "}, {"shadow Picky --off", "Picky has no candidate"},
			{"upgrade versioned", "Picky of bundle versioned"}, {"gc --dry-run", ""}, {"package " + built + " -f " + filepath.Join(work, "FORMAT.tar.gz"), "BUNDLE "},
		} {
			for _, format := range []string{"table", "wide", "json", "yaml"} {
				args := []string{strings.ReplaceAll(c.line, "FORMAT", format), "--output", format}
				r, code := run(args[0], args[1:]...)
				if code != 0 || strings.ContainsAny(r.stdout+r.stderr, "\r\x1b") {
					t.Errorf("plugin %v ends with %d:\n%s%s", args, code, r.stdout, r.stderr)
				}
				var v any
				switch format {
				case "json":
					if err := json.NewDecoder(strings.NewReader(r.stdout)).Decode(&v); err != nil {
						t.Errorf("plugin %v: %v:\n%s", args, err, r.stdout)
					}
				case "yaml":
					if err := yaml.Unmarshal([]byte(r.stdout), &v); err != nil || r.stdout == "" || strings.HasPrefix(r.stdout, "{") {
						t.Errorf("plugin %v: %v:\n%s", args, err, r.stdout)
					}
				default:
					if !strings.HasPrefix(r.stdout, c.head) {
						t.Errorf("plugin %v says:\n%s", args, r.stdout)
					}
				}
			}
		}
	})

	t.Run("completion", func(t *testing.T) {
		const files, folders = ":0", ":16"
		for _, c := range []struct{ line, offers string }{
			{"plugin |", "enable"}, {"plugin describe |", "HostName"}, {"plugin enable |", "HostName"}, {"plugin disable |", "classic"}, {"plugin upgrade |", "classic"},
			{"plugin rollback |", "versioned"}, {"plugin logs |", "classic"}, {"plugin shadow |", "Picky"}, {"plugin diff |", "Picky"}, {"plugin verify --data DATA |", "versioned"},
			{"plugin remove --data DATA |", "versioned"}, {"plugin seal |", files}, {"plugin init |", "predicate"}, {"plugin init predicate x --lang |", "rust"},
			{"plugin install x --signatures |", "require"}, {"plugin install x --data |", folders}, {"plugin install x --data DATA --profile |", "default-scheduler"}, {"plugin install |", files},
			{"plugin enable HostName --profile |", "default-scheduler"}, {"plugin disable HostName --profile |", "default-scheduler"}, {"plugin build --target |", "wasm"},
			{"plugin list --output |", "wide"}, {"plugin verify -o |", "yaml"}, {"plugin logs classic -o |", "json"}, {"plugin list --|", "--kubeconfig"},
			{"explain |", "pod"}, {"explain pod |", "present"}, {"explain pod x -n |", "kube-system"}, {"simulate --set |", "LeastRequestedPriority="}, {"simulate --disable |", "HostName"},
			{"store migrate --to |", "etcd"},
		} {
			if c.offers == "present" {
				e.ask(t, "present", "default-scheduler")
			}
			words := strings.Fields(strings.ReplaceAll(strings.TrimSuffix(c.line, "|"), "DATA", data))
			last := ""
			if !strings.HasSuffix(c.line, " |") {
				words, last = words[:len(words)-1], words[len(words)-1]
			}
			r := e.run(t, "", binary(t, "pintle"), append(append([]string{"__complete"}, words...), last)...)
			var offered []string
			for _, line := range strings.Split(r.stdout, "\n") {
				name, _, _ := strings.Cut(line, "\t")
				offered = append(offered, name)
			}
			if r.err != nil || !slices.Contains(offered, c.offers) {
				t.Errorf("%s offers %q, want %s among them (%v)\n%s", c.line, offered, c.offers, r.err, r.stderr)
			}
		}
		for _, shell := range []string{"bash", "zsh", "fish"} {
			path, err := exec.LookPath(shell)
			if err != nil {
				continue
			}
			script := e.pintle(t, nil, "completion", shell).must(t)
			file := write(t, filepath.Join(work, "completion."+shell), script)
			if out, err := exec.Command(path, "-n", file).CombinedOutput(); err != nil {
				t.Errorf("%s does not read its completion: %v\n%s", shell, err, out)
			}
		}
		bashCompletes(t, e, filepath.Join(work, "completion.bash"))
	})
	e.stop(t)
}

// bashCompletes has bash itself complete a line, with the one function that the
// script takes of the package bash-completion.
func bashCompletes(t *testing.T, e *env, script string) {
	t.Helper()
	if _, err := os.Stat(script); err != nil {
		skip(t, "completion needs bash")
	}
	line := "pintle plugin enable HostN"
	r := e.run(t, "", "bash", "-c", fmt.Sprintf(`
_init_completion() { cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD; }
source %s
PATH=%s:$PATH COMP_LINE=%q COMP_POINT=%d COMP_TYPE=9 COMP_WORDS=(%s) COMP_CWORD=3
__start_pintle
echo "${COMPREPLY[@]}"`, script, filepath.Dir(binary(t, "pintle")), line, len(line), line))
	if strings.TrimSpace(r.stdout) != "HostName" {
		t.Errorf("bash completes %q with %q\n%s", line, r.stdout, r.stderr)
	}
}
