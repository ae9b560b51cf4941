package authorization

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	"pintle.dev/pintle/kernel/secretfile"
)

// allowing is a member that allows some users.
type allowing []string

func (m allowing) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if slices.Contains(m, a.GetUser().GetName()) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func (m allowing) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(m.Authorize(ctx, a))
}

func (allowing) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

func (m allowing) RulesFor(_ context.Context, u user.Info, _ string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	if slices.Contains(m, u.GetName()) {
		return []authorizer.ResourceRuleInfo{&authorizer.DefaultResourceRuleInfo{Verbs: []string{"get"}}}, nil, false, nil
	}
	return nil, nil, false, nil
}

// write writes a file of the test.
func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// file is an AuthorizationConfiguration.
func file(authorizers ...string) string {
	return "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n" + strings.Join(authorizers, "")
}

func simple(kind string) string {
	return fmt.Sprintf("- type: %s\n  name: %s\n", kind, strings.ToLower(kind))
}

// asking is an authorizer that asks a webhook at a URL.
func asking(t *testing.T, name, url, more string) string {
	t.Helper()
	kubeconfig := write(t, filepath.Join(t.TempDir(), "kubeconfig"), fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: w, cluster: {server: %q}}]
contexts: [{name: w, context: {cluster: w}}]
current-context: w
`, url))
	if !strings.Contains(more, "timeout") {
		more += "    timeout: 30s\n"
	}
	if !strings.Contains(more, "failurePolicy") {
		more += "    failurePolicy: NoOpinion\n"
	}
	return fmt.Sprintf(`- type: Webhook
  name: %s
  webhook:
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}
%s`, name, kubeconfig, more)
}

// answering is a webhook with an answer to each question.
func answering(t *testing.T, answer func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked.Add(1)
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Status = answer(review.Spec)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func byName(spec authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
	return authorizationv1.SubjectAccessReviewStatus{Allowed: spec.User == "webhooked", Denied: spec.User == "bad"}
}

type ownKey struct{}

func options(file string) Options {
	return Options{
		File: file, Node: allowing{"system:node:n1"}, RBAC: allowing{"alice", "bad", "scheduler"}, Logger: slog.New(slog.DiscardHandler), ServerID: "test",
		Own: func(ctx context.Context, _ user.Info) bool { return ctx.Value(ownKey{}) != nil },
	}
}

func ask(ctx context.Context, a authorizer.Authorizer, name string, groups ...string) authorizer.Decision {
	decision, _, _ := a.Authorize(ctx, authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: name, Groups: groups}, Verb: "get", APIVersion: "v1", Resource: "pods", Namespace: "default", ResourceRequest: true,
	})
	return decision
}

const (
	no    = authorizer.DecisionNoOpinion
	allow = authorizer.DecisionAllow
	deny  = authorizer.DecisionDeny
)

// Who is asked, in which order, and what follows.
func TestOrder(t *testing.T) {
	url, _ := answering(t, byName)
	hook := asking(t, "hook", url, "")
	for name, test := range map[string]struct {
		file string
		want map[string]authorizer.Decision
	}{
		"none":       {"", map[string]authorizer.Decision{"alice": allow, "system:node:n1": allow, "mallory": no}},
		"rbac alone": {file(simple("RBAC")), map[string]authorizer.Decision{"alice": allow, "system:node:n1": no}},
		"webhook first": {file(hook, simple("Node"), simple("RBAC")),
			map[string]authorizer.Decision{"alice": allow, "webhooked": allow, "bad": deny, "mallory": no}},
		"webhook last": {file(simple("Node"), simple("RBAC"), hook),
			map[string]authorizer.Decision{"bad": allow, "webhooked": allow, "mallory": no}},
		"always deny":  {file(simple("AlwaysDeny")), map[string]authorizer.Decision{"alice": no, "mallory": no}},
		"always allow": {file(simple("RBAC"), simple("AlwaysAllow")), map[string]authorizer.Decision{"mallory": allow}},
	} {
		t.Run(name, func(t *testing.T) {
			path := ""
			if test.file != "" {
				path = write(t, filepath.Join(t.TempDir(), "authz.yaml"), test.file)
			}
			c, err := New(options(path))
			if err != nil {
				t.Fatal(err)
			}
			for who, want := range test.want {
				if got := ask(t.Context(), c, who); got != want {
					t.Errorf("%s: %v, want %v", who, got, want)
				}
			}
			if got := ask(t.Context(), c, "root", user.SystemPrivilegedGroup); got != allow {
				t.Errorf("system:masters: %v", got)
			}
		})
	}
}

// The kernel's own parts go on under a chain that denies everything, with the rights
// of Node and RBAC and no more; who has only their name does not.
func TestKernelParts(t *testing.T) {
	url, asked := answering(t, func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
		return authorizationv1.SubjectAccessReviewStatus{Denied: true}
	})
	c, err := New(options(write(t, filepath.Join(t.TempDir(), "authz.yaml"), file(asking(t, "denies", url, ""), simple("RBAC")))))
	if err != nil {
		t.Fatal(err)
	}
	own := context.WithValue(t.Context(), ownKey{}, true)
	for _, who := range []string{"scheduler", "system:node:n1"} {
		if got := ask(own, c, who); got != allow {
			t.Errorf("%s: %v", who, got)
		}
	}
	if asked.Load() != 0 {
		t.Errorf("the webhook was asked %d times", asked.Load())
	}
	if got := ask(own, c, "mallory"); got != deny {
		t.Errorf("a part without the right: %v", got)
	}
	if got := ask(t.Context(), c, "scheduler"); got != deny {
		t.Errorf("somebody of that name: %v", got)
	}
}

// Webhooks that fail: the failure policy decides, in time.
func TestFailures(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"rubbish":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"other kind": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"kind":"Pod","apiVersion":"v1"}`) },
		"refuses":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
		"hangs": func(_ http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body) // only then the server sees that the client is gone
			<-req.Context().Done()
		},
		"redirects": func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/other" {
				fmt.Fprint(w, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`)
				return
			}
			http.Redirect(w, req, "/other", http.StatusTemporaryRedirect)
		},
		"without end": func(w http.ResponseWriter, req *http.Request) {
			block := []byte(strings.Repeat(" ", 64<<10))
			for req.Context().Err() == nil {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(answer)
			t.Cleanup(server.Close)
			for policy, want := range map[string]authorizer.Decision{"NoOpinion": no, "Deny": deny} {
				hook := asking(t, "fails", server.URL, "    timeout: 500ms\n    failurePolicy: "+policy+"\n")
				c, err := New(options(write(t, filepath.Join(t.TempDir(), "authz.yaml"), file(hook))))
				if err != nil {
					t.Fatal(err)
				}
				if got := ask(t.Context(), c, "webhooked"); got != want {
					t.Errorf("%s: %v, want %v", policy, got, want)
				}
			}
		})
	}
}

// Match conditions keep questions from a webhook; what it answers is remembered.
func TestConditionsAndCache(t *testing.T) {
	url, asked := answering(t, byName)
	hook := asking(t, "hook", url, "    authorizedTTL: 1h\n    unauthorizedTTL: 1h\n    matchConditions:\n    - expression: request.user != 'skipped'\n")
	c, err := New(options(write(t, filepath.Join(t.TempDir(), "authz.yaml"), file(hook))))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if ask(t.Context(), c, "skipped") != no || ask(t.Context(), c, "webhooked") != allow {
			t.Fatal("wrong answers")
		}
	}
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// A file that says the wrong thing is refused, with what is wrong.
func TestRefusedFiles(t *testing.T) {
	url, _ := answering(t, byName)
	hook := asking(t, "hook", url, "")
	for want, content := range map[string]string{
		"Object 'Kind' is missing":     "authorizers: []",
		`unknown field "authorisers"`:  strings.Replace(file(simple("RBAC")), "authorizers", "authorisers", 1),
		"at least one authorization":   file(),
		`Unsupported value: "ABAC"`:    file(simple("ABAC")),
		`Unsupported value: "Nobody"`:  file(simple("Nobody")),
		`Duplicate value: "RBAC"`:      file(simple("RBAC"), simple("RBAC")),
		`Duplicate value: "hook"`:      file(hook, hook),
		`want "rbac"`:                  file("- {type: RBAC, name: roles}\n"),
		"no such file":                 file(strings.Replace(hook, "/kubeconfig", "/absent", 1)),
		"must be > 0s and <= 30s":      file(asking(t, "slow", url, "    timeout: 60s\n")),
		"undeclared reference to 'no'": file(asking(t, "cel", url, "    matchConditions: [{expression: no.such}]\n")),
		"want KubeConfigFile": file(strings.Replace(strings.Replace(hook, "type: KubeConfigFile", "type: InClusterConfig", 1),
			hook[strings.Index(hook, ", kubeConfigFile"):strings.Index(hook, "/kubeconfig")+len("/kubeconfig")], "", 1)),
	} {
		path := write(t, filepath.Join(t.TempDir(), "authz.yaml"), content)
		if _, err := New(options(path)); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), `\"`, `"`), want) {
			t.Errorf("%s: %v", want, err)
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("the error does not name the file: %v", err)
		}
	}
	if _, err := New(options(filepath.Join(t.TempDir(), "absent"))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
	large := write(t, filepath.Join(t.TempDir(), "large"), strings.Repeat("#", secretfile.MaxSize+1))
	if _, err := New(options(large)); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("large file: %v", err)
	}
	open := write(t, filepath.Join(t.TempDir(), "open"), file(simple("RBAC")))
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := New(options(open)); err == nil || !strings.Contains(err.Error(), "everybody may write it") {
		t.Errorf("file that everybody may write: %v", err)
	}
}

// A changed file is in force soon; one that cannot be used, or that leaves out a type
// of the start, leaves the one before in force, and is counted.
func TestReload(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "authz.yaml"), file(simple("RBAC"), simple("AlwaysDeny")))
	c, err := New(options(path))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { defer close(done); c.Follow(ctx) }()
	until := func(what string, ok func() bool) {
		t.Helper()
		deadline := time.Now().Add(2 * time.Minute)
		for !ok() {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
			time.Sleep(time.Millisecond)
		}
	}
	url, _ := answering(t, byName)
	replace := func(content string) {
		t.Helper()
		if err := os.Rename(write(t, path+".new", content), path); err != nil {
			t.Fatal(err)
		}
	}
	if ask(t.Context(), c, "webhooked") != no {
		t.Fatal("allowed before")
	}
	replace(file(simple("RBAC"), simple("AlwaysDeny"), asking(t, "hook", url, "")))
	until("the webhook is not asked", func() bool { return ask(t.Context(), c, "webhooked") == allow })
	failures := count(t, "failure")
	for i, bad := range []string{"{", file(simple("AlwaysDeny"), simple("AlwaysAllow")), file(simple("RBAC"), simple("AlwaysDeny"), simple("ABAC"))} {
		replace(bad)
		// A change that the file system tells twice is counted twice.
		until("the failure is not counted", func() bool { return count(t, "failure") >= failures+float64(i)+1 })
		if ask(t.Context(), c, "webhooked") != allow || ask(t.Context(), c, "mallory") != no {
			t.Errorf("%q is in force", bad)
		}
	}
	replace(file(simple("RBAC"), simple("AlwaysDeny")))
	until("the webhook is still asked", func() bool { return ask(t.Context(), c, "webhooked") == no })
	if count(t, "success") < 2 {
		t.Error("successes are not counted")
	}
	cancel()
	<-done
}

// count is how often the file was read again with a result.
func count(t *testing.T, result string) float64 {
	t.Helper()
	found, err := testutil.GetCounterValuesFromGatherer(legacyregistry.DefaultGatherer, "apiserver_authorization_config_controller_automatic_reloads_total", nil, "status")
	if err != nil {
		t.Fatal(err)
	}
	return found[result]
}

// The rules of a webhook are not known: what is told is incomplete.
func TestRules(t *testing.T) {
	url, _ := answering(t, byName)
	for content, incomplete := range map[string]bool{file(simple("RBAC")): false, file(simple("RBAC"), asking(t, "hook", url, "")): true} {
		c, err := New(options(write(t, filepath.Join(t.TempDir(), "authz.yaml"), content)))
		if err != nil {
			t.Fatal(err)
		}
		rules, _, got, _ := c.RulesFor(t.Context(), &user.DefaultInfo{Name: "alice"}, "default")
		if got != incomplete || len(rules) != 1 {
			t.Errorf("%d rules, incomplete %v; want %v", len(rules), got, incomplete)
		}
	}
}

// The example of the configurations is one that works.
func TestExample(t *testing.T) {
	example, err := os.ReadFile("../../../../configs/examples/access/authorization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	url, asked := answering(t, func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
		return authorizationv1.SubjectAccessReviewStatus{Denied: true}
	})
	hook := asking(t, "hook", url, "")
	kubeconfig, _, _ := strings.Cut(hook[strings.Index(hook, "kubeConfigFile: ")+len("kubeConfigFile: "):], "}")
	content := strings.Replace(string(example), "/etc/pintle/authorizer.kubeconfig", kubeconfig, 1)
	c, err := New(options(write(t, filepath.Join(t.TempDir(), "authz.yaml"), content)))
	if err != nil {
		t.Fatal(err)
	}
	if ask(t.Context(), c, "alice") != allow || asked.Load() != 0 {
		t.Errorf("pods of another namespace: asked %d times", asked.Load())
	}
	question := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice"}, Verb: "get", Resource: "secrets", Namespace: "production", ResourceRequest: true}
	if got, _, err := c.Authorize(t.Context(), question); got != deny || err != nil || asked.Load() != 1 {
		t.Errorf("secrets of production: %v, %v; asked %d times", got, err, asked.Load())
	}
	question.User = &user.DefaultInfo{Name: "alice", Groups: []string{"system:pintle:plugins"}}
	if got, _, _ := c.Authorize(t.Context(), question); got != allow || asked.Load() != 1 {
		t.Errorf("a plugin: %v; asked %d times", got, asked.Load())
	}
}
