package imagepolicy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/api/imagepolicy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
)

// configured is a configuration that asks a server.
func configured(t *testing.T, answer http.HandlerFunc, more string) []byte {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: w,
 clusters: [{name: w, cluster: {server: %q}}], contexts: [{name: w, context: {cluster: w}}]}`, server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, "imagePolicy: {kubeConfigFile: %s%s}", path, more)
}

// judging allows images that are called good, and counts the questions.
func judging(asked *[]v1alpha1.ImageReviewSpec) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		var review v1alpha1.ImageReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		*asked = append(*asked, review.Spec)
		review.Status.Allowed = true
		for _, c := range review.Spec.Containers {
			if !strings.HasPrefix(c.Image, "good") {
				review.Status = v1alpha1.ImageReviewStatus{Reason: c.Image + " is not good", AuditAnnotations: map[string]string{"bad": c.Image}}
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}
}

func pod(images ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"why.image-policy.k8s.io/ticket": "1", "other": "2"}}}
	for _, i := range images {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Image: i})
	}
	return p
}

func ask(ctx context.Context, p *Plugin, op admission.Operation, part string, pod *corev1.Pod) error {
	return p.Validate(ctx, admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "default", "p", corev1.SchemeGroupVersion.WithResource("pods"), part, op, nil, false, nil), nil)
}

// Which images are asked about, and what follows.
func TestImages(t *testing.T) {
	withInit, debugged := pod("good"), pod("bad")
	withInit.Spec.InitContainers = []corev1.Container{{Image: "bad-init"}}
	debugged.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Image: "good-debugger"}}}
	var asked []v1alpha1.ImageReviewSpec
	p, err := New(configured(t, judging(&asked), ""))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		op        admission.Operation
		part      string
		pod       *corev1.Pod
		fault     string
		questions int
	}{
		"good":                 {admission.Create, "", pod("good"), "", 1},
		"bad":                  {admission.Create, "", pod("good", "bad"), "image policy webhook backend denied one or more images: bad is not good", 1},
		"bad, changed":         {admission.Update, "", pod("good-2", "bad"), "denied one or more images", 1},
		"bad init container":   {admission.Create, "", withInit, "bad-init is not good", 1},
		"ephemeral containers": {admission.Update, "ephemeralcontainers", debugged, "", 1},
		"status":               {admission.Update, "status", pod("bad"), "", 0},
	} {
		asked = nil
		for range 2 { // the second is remembered
			if err := ask(t.Context(), p, test.op, test.part, test.pod); (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(asked) != test.questions {
			t.Errorf("%s: asked %d times", name, len(asked))
			continue
		}
		if len(asked) > 0 && (len(asked[0].Annotations) != 1 || asked[0].Annotations["why.image-policy.k8s.io/ticket"] != "1" || asked[0].Namespace != "default") {
			t.Errorf("%s: %+v", name, asked[0])
		}
	}
}

// A server that fails decides nothing: the configuration does, and the pod says it.
func TestFailures(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"rubbish": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"other kind": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"kind":"Pod","apiVersion":"v1","status":{"allowed":true}}`)
		},
		"refuses":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
		"redirects":   func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, "http://127.0.0.1:1/", 307) },
		"without end": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, io.LimitReader(blank{}, 100<<20)) },
		"no answer":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, open := range []bool{true, false} {
				p, err := New(configured(t, answer, fmt.Sprintf(", defaultAllow: %t, retryBackoff: 1", open)))
				if err != nil {
					t.Fatal(err)
				}
				asked := pod("bad")
				if err := ask(t.Context(), p, admission.Create, "", asked); (err == nil) != open {
					t.Errorf("defaultAllow %t: %v", open, err)
				}
				if (asked.Annotations[FailedOpenAnnotation] == "true") != open {
					t.Errorf("defaultAllow %t: annotations %v", open, asked.Annotations)
				}
			}
		})
	}
}

// blank is spaces without end.
type blank struct{}

func (blank) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// A question that hangs ends with the request that asks it.
func TestHangs(t *testing.T) {
	p, err := New(configured(t, func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		<-req.Context().Done()
	}, ""))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := ask(ctx, p, admission.Create, "", pod("good")); err == nil {
		t.Error("it passed")
	}
}

func TestConfiguration(t *testing.T) {
	for content, fault := range map[string]string{
		"":                                       "it has no configuration",
		"imagePolicy: {}":                        "kubeConfigFile: is empty",
		"imagePolicy: {kubeConfigFile: /absent}": "no such file",
		"imagePolicy: {kubeConfigFile: x, allowTTL: 1801}":            "imagePolicy.allowTTL: valid value is between 1s and 30m0s",
		"imagePolicy: {kubeConfigFile: x, denyTTL: -2}":               "imagePolicy.denyTTL",
		"imagePolicy: {kubeConfigFile: x, retryBackoff: 99999999999}": "imagePolicy.retryBackoff",
		"imagePolicy: {kubeconfigFile: x, unknown: 1}":                "unknown field",
	} {
		if _, err := New([]byte(content)); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v", content, err)
		}
	}
}
