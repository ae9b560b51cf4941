package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// chartCase is a chart and what its objects say: first as it is installed, and second as
// it is upgraded.
type chartCase struct {
	sets   []string
	change []string
	// objects are the fields of objects, with what they hold before and after.
	objects map[string][2]string
	// more is asked while the upgrade is in force.
	more func(t *testing.T, h *helm, release string)
}

// TestHelmCharts: charts of the shapes that people use are installed, upgraded, taken back
// and removed, and nothing of them is left.
func TestHelmCharts(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		skip(t, "Helm is built by go")
	}
	e := hollow(t, "charts", "", 3)
	h := newHelm(t, e)
	operator, bundle := operatorWebhook(t)
	for i := range 2 {
		makeVolume(t, e, fmt.Sprintf("plain-%d", i))
	}
	cases := map[string]chartCase{
		"operator": {
			sets:   []string{"webhook.url=" + operator, "webhook.caBundle=" + bundle},
			change: []string{"replicas=2"},
			objects: map[string][2]string{
				"deployment/RELEASE-controller .status.readyReplicas":                       {"1", "2"},
				"deployment/RELEASE-webhook .status.updatedReplicas":                        {"1", "2"},
				"crd/issuers.RELEASE.example .status.acceptedNames.kind":                    {"Issuer", "Issuer"},
				"clusterrole/RELEASE-view .rules[0].apiGroups[0]":                           {"RELEASE.example", "RELEASE.example"},
				"validatingwebhookconfiguration/RELEASE-webhook .webhooks[0].failurePolicy": {"Fail", "Fail"},
			},
			more: issuersAreReviewed,
		},
		"database": {
			sets:   []string{"storage.class=plain"},
			change: []string{"shared=256MB", "metrics=false"},
			objects: map[string][2]string{
				"statefulset/RELEASE .status.updatedReplicas":          {"2", "2"},
				"statefulset/RELEASE .status.readyReplicas":            {"2", "2"},
				"pvc/data-RELEASE-1 .status.phase":                     {"Bound", "Bound"},
				`configmap/RELEASE .data.postgresql\.conf`:             {"shared_buffers = 128MB", "shared_buffers = 256MB"},
				"pod/RELEASE-0 .spec.containers[*].name":               {"postgresql metrics", "postgresql"},
				"poddisruptionbudget/RELEASE .status.expectedPods":     {"2", "2"},
				"endpoints/RELEASE-headless .subsets[0].ports[0].port": {"5432", "5432"},
			},
		},
		"agent": {
			change: []string{"version=2"},
			objects: map[string][2]string{
				"daemonset/RELEASE .status.numberReady":                                        {"3", "3"},
				"daemonset/RELEASE .status.updatedNumberScheduled":                             {"3", "3"},
				"pod -l app.kubernetes.io/instance=RELEASE .items[*].spec.containers[0].image": {"agent.example/agent:1 agent.example/agent:1 agent.example/agent:1", "agent.example/agent:2 agent.example/agent:2 agent.example/agent:2"},
			},
		},
		"webapp": {
			change: []string{"color=green", "cache.enabled=true"},
			objects: map[string][2]string{
				"deployment/RELEASE .status.updatedReplicas":                               {"2", "2"},
				"hpa/RELEASE .status.currentReplicas":                                      {"2", "2"},
				"poddisruptionbudget/RELEASE .status.currentHealthy":                       {"2", "2"},
				"ingress/RELEASE .spec.rules[0].host":                                      {"RELEASE.example", "RELEASE.example"},
				"configmap/RELEASE .data.color":                                            {"blue", "green"},
				"deployment -l app.kubernetes.io/instance=RELEASE .items[*].metadata.name": {"RELEASE", "RELEASE RELEASE-cache"},
			},
		},
		"batch": {
			change: []string{"indexes=3", "schedule=@monthly"},
			objects: map[string][2]string{
				"job -l app.kubernetes.io/instance=RELEASE .items[*].status.succeeded":        {"2", "3"},
				"job -l app.kubernetes.io/instance=RELEASE .items[*].status.completedIndexes": {"0,1", "0-2"},
				"cronjob/RELEASE .spec.schedule":                                              {"@yearly", "@monthly"},
			},
			more: workBeforeUpgradeFails,
		},
	}
	t.Run("all", func(t *testing.T) { // ends before the cluster does
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c.pass(t, h, name)
			})
		}
	})
}

func (c chartCase) pass(t *testing.T, h *helm, name string) {
	release, chart := "my-"+name, h.e.Path("e2e", "helm", "charts", name)
	flags := func(sets ...string) []string {
		args := []string{"--wait", "--wait-for-jobs", "--timeout=110s"}
		for _, s := range sets {
			args = append(args, "--set="+s)
		}
		return args
	}
	h.do(t, append([]string{"install", release, chart}, flags(c.sets...)...)...)
	c.check(t, h, release, 0)
	h.do(t, append([]string{"upgrade", release, chart, "--reuse-values"}, flags(c.change...)...)...)
	c.check(t, h, release, 1)
	if c.more != nil {
		c.more(t, h, release)
	}
	h.do(t, append([]string{"rollback", release, "1"}, flags()...)...)
	c.check(t, h, release, 0)
	h.do(t, "uninstall", release, "--wait", "--timeout=110s")
	nothingLeft(t, h.e, release)
}

// check waits until the objects say what they should.
func (c chartCase) check(t *testing.T, h *helm, release string, state int) {
	t.Helper()
	for object, words := range c.objects {
		want := strings.ReplaceAll(words[state], "RELEASE", release)
		args := strings.Fields(strings.ReplaceAll(object, "RELEASE", release))
		path := args[len(args)-1]
		eventually(t, func(context.Context) error {
			r := h.e.try(t, append(append([]string{"get"}, args[:len(args)-1]...), "-o", "jsonpath={"+path+"}")...)
			if r.err != nil || strings.TrimSpace(r.stdout) != want {
				return fmt.Errorf("%s is %q, want %q; %v %s", object, r.stdout, want, r.err, r.stderr)
			}
			return nil
		})
	}
}

// nothingLeft fails while an object of any kind has a name that begins with the release's.
func nothingLeft(t *testing.T, e *env, release string) {
	t.Helper()
	kinds := strings.Fields(e.kubectl(t, "api-resources", "--verbs=list", "-o", "name"))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind == "events" || strings.HasPrefix(kind, "events.") })
	if len(kinds) < 30 {
		t.Fatalf("only %d kinds are looked at", len(kinds))
	}
	eventually(t, func(context.Context) error {
		r := e.try(t, "get", strings.Join(kinds, ","), "-A", "-o", "name")
		if r.err != nil {
			return fmt.Errorf("%w: %s", r.err, r.stderr) // a kind may go meanwhile
		}
		for line := range strings.Lines(r.stdout) {
			if strings.Contains(line, release) {
				return fmt.Errorf("left of %s: %s", release, line)
			}
		}
		return nil
	})
}

// makeVolume makes a volume by hand that a claim of the class plain may have.
func makeVolume(t *testing.T, e *env, name string) {
	t.Helper()
	_, err := e.client.CoreV1().PersistentVolumes().Create(bound(t), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "plain", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: t.TempDir()}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// operatorWebhook is what the operator's own program would serve: it gives issuers a
// label and refuses those of a server named bad. It returns its URL and its authority.
func operatorWebhook(t *testing.T) (url, bundle string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, fmt.Sprint("no review: ", err), http.StatusBadRequest)
			return
		}
		answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		switch {
		case r.URL.Path == "/mutating":
			kind := admissionv1.PatchTypeJSONPatch
			answer.PatchType, answer.Patch = &kind, []byte(`[{"op":"add","path":"/metadata/labels","value":{"reviewed":"yes"}}]`)
		case strings.Contains(string(review.Request.Object.Raw), `"server":"bad"`):
			answer.Allowed, answer.Result = false, &metav1.Status{Message: "the server is bad"}
		}
		review.Request, review.Response = nil, answer
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return server.URL, base64.StdEncoding.EncodeToString(authority)
}

// issuersAreReviewed: the definition and the webhooks of the chart act.
func issuersAreReviewed(t *testing.T, h *helm, release string) {
	issuer := func(name, server string) string {
		return fmt.Sprintf("apiVersion: %s.example/v1\nkind: Issuer\nmetadata: {name: %s}\nspec: {server: %s}\n", release, name, server)
	}
	path, err := kubectlPath()
	if err != nil {
		t.Fatal(err)
	}
	if r := h.e.run(t, issuer("refused", "bad"), path, "apply", "-f", "-"); r.err == nil || !strings.Contains(r.stderr, "the server is bad") {
		t.Errorf("an issuer of a bad server: %v %s", r.err, r.stderr)
	}
	h.e.apply(t, "default", issuer("fine", "good"))
	if got := h.e.kubectl(t, "get", "issuers."+release+".example", "fine", "-o", "jsonpath={.metadata.labels.reviewed} {.spec.days}"); got != "yes 90" {
		t.Errorf("the issuer that was accepted has label and days %q", got)
	}
}

// workBeforeUpgradeFails: an upgrade whose work fails is not made.
func workBeforeUpgradeFails(t *testing.T, h *helm, release string) {
	chart := h.e.Path("e2e", "helm", "charts", "batch")
	h.refused(t, []string{"upgrade", release, chart, "--reuse-values", "--set=exit=1,schedule=@hourly", "--timeout=110s"}, "pre-upgrade hooks failed")
	if got := h.e.kubectl(t, "get", "cronjob", release, "-o", "jsonpath={.spec.schedule}"); got != "@monthly" {
		t.Errorf("the schedule is %s", got)
	}
	// What failed stays, to be looked at, until the next of its name.
	h.e.kubectl(t, "delete", "job", release+"-pre-upgrade")
	contains(t, h.do(t, "test", release), "Phase:          Succeeded")
}
