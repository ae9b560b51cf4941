package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/audit"
)

// recorded waits until the log has an event for each of the wanted ones, "user verb
// resource or path code level", and gives the whole log.
func recorded(t *testing.T, log string, want ...string) string {
	t.Helper()
	var text string
	var missing []string
	defer func() {
		if t.Failed() || len(missing) > 0 {
			t.Logf("missing %q in\n%s", missing, text)
		}
	}()
	waitFor(t, func() bool {
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		text = string(data)
		have := map[string]bool{}
		for line := range strings.Lines(text) {
			var e auditv1.Event
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				return false // half a line
			}
			if e.ResponseStatus == nil {
				continue
			}
			what := e.RequestURI
			if r := e.ObjectRef; r != nil {
				if what = r.Resource; r.Subresource != "" {
					what += "/" + r.Subresource
				}
			}
			have[fmt.Sprint(e.User.Username, " ", e.Verb, " ", what, " ", e.ResponseStatus.Code, " ", e.Level)] = true
		}
		missing = nil
		for _, w := range want {
			if !have[w] {
				missing = append(missing, w)
			}
		}
		return len(missing) == 0
	})
	return text
}

// The default policy records who touched what is secret or gives rights, allowed or
// not, and never a secret itself.
func TestAuditLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit", "audit.log")
	s, _ := startWith(t, t.TempDir(), func(c *api.Config) {
		c.Audit = audit.Options{LogPath: log}
		c.StoreHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "backup") })
	})
	ctx := t.Context()
	admin := overTLS(t, s)
	token := account(t, s, "nobody")
	stranger := bearer(t, s, token)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"k": "correct-horse"}}
	if _, err := admin.CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.CoreV1().Secrets("default").Get(ctx, "s", metav1.GetOptions{}); err == nil {
		t.Fatal("a stranger reads a secret")
	}
	if _, err := admin.RbacV1().Roles("default").Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "role-of-the-test"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().Pods("default").Create(ctx, pod("unrecorded"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, _ = admin.CoreV1().RESTClient().Get().AbsPath("/kernel/store/backup").DoRaw(ctx)
	_, _ = admin.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("none").SubResource("exec").DoRaw(ctx)
	const nobody = "system:serviceaccount:default:nobody"
	text := recorded(t, log,
		"kubernetes-admin create secrets 201 Metadata", "kubernetes-admin list secrets 200 Metadata",
		"kubernetes-admin create serviceaccounts/token 201 Metadata", nobody+" get secrets 403 Metadata",
		"kubernetes-admin create roles 201 Request", "kubernetes-admin get /kernel/store/backup 200 Metadata", "kubernetes-admin create pods/exec 404 Metadata")
	for _, unwanted := range []string{"correct-horse", "Y29ycmVjdC1ob3JzZQ", token, "unrecorded", "system:apiserver"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("%q is in the log", unwanted)
		}
	}
	if !strings.Contains(text, "role-of-the-test") {
		t.Error("the body of a role is not in the log")
	}
	if info, err := os.Stat(log); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the log: %v, %v", info.Mode(), err)
	}
}

// Creates of pods are recorded by either chain when a policy wants them, and who is
// not let in as well.
func TestAuditOfPods(t *testing.T) {
	for _, level := range []string{"Metadata", "Request", "RequestResponse"} {
		t.Run(level, func(t *testing.T) {
			dir := t.TempDir()
			log, policy := filepath.Join(dir, "audit.log"), filepath.Join(dir, "policy.yaml")
			if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: "+level+", resources: [{group: \"\", resources: [pods]}]}]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s, _ := startWith(t, t.TempDir(), func(c *api.Config) { c.Audit = audit.Options{LogPath: log, PolicyFile: policy} })
			p := pod("recorded")
			p.Annotations = map[string]string{"words": "of-the-body"}
			if _, err := overTLS(t, s).CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := overTLS(t, s).CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err == nil {
				t.Fatal("a pod is made twice")
			}
			if _, err := bearer(t, s, "nonsense").CoreV1().Pods("default").Create(t.Context(), pod("p"), metav1.CreateOptions{}); err == nil {
				t.Fatal("nonsense is a token")
			}
			text := recorded(t, log, "kubernetes-admin create pods 201 "+level, "kubernetes-admin create pods 409 "+level, " create pods 401 "+level)
			if got := strings.Contains(text, "of-the-body"); got != (level != "Metadata") {
				t.Errorf("the body is in the log: %v", got)
			}
		})
	}
}
