package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/api/imagepolicy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/api"
)

// The example of the configurations does what it says, and webhooks get the
// credentials of a kubeconfig.
func TestAdmissionConfig(t *testing.T) {
	images := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review v1alpha1.ImageReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Status = v1alpha1.ImageReviewStatus{Allowed: !strings.Contains(review.Spec.Containers[0].Image, "bad"), Reason: "bad"}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(images.Close)
	imagesConfig := written(t, "images", fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: w,
 clusters: [{name: w, cluster: {server: %q}}], contexts: [{name: w, context: {cluster: w}}]}`, images.URL))
	var shown atomic.Value
	h := &hook{name: "credentials"}
	h.listen(t, func(w http.ResponseWriter, req *http.Request) {
		shown.Store(req.Header.Get("Authorization"))
		http.Error(w, "no", http.StatusTeapot)
	})
	hooksConfig := written(t, "hooks", `{apiVersion: v1, kind: Config, users: [{name: "127.0.0.1:*", user: {token: for-the-webhook}}, {name: "*", user: {token: for-others}}]}`)
	dir := t.TempDir()
	for _, name := range []string{"admission.yaml", "eventratelimit.yaml"} {
		data, err := os.ReadFile(filepath.Join("../../configs/examples/access", name))
		if err != nil {
			t.Fatal(err)
		}
		content := strings.Replace(string(data), "/etc/pintle/images.kubeconfig", imagesConfig, 1)
		if name == "admission.yaml" {
			content += `- name: ValidatingAdmissionWebhook
  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: ` + hooksConfig + "}\n"
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := startWith(t, t.TempDir(), func(c *api.Config) {
		c.AdmissionConfig = filepath.Join(dir, "admission.yaml")
		c.EnableAdmission = []string{"PodNodeSelector", "PodTolerationRestriction", "ImagePolicyWebhook", "EventRateLimit"}
	})
	c := overTLS(t, s)
	made, err := c.CoreV1().Pods("default").Create(t.Context(), pod("good"), metav1.CreateOptions{})
	if err != nil || made.Spec.NodeSelector["pool"] != "general" || !slices.ContainsFunc(made.Spec.Tolerations, func(x corev1.Toleration) bool { return x.Key == "pool" }) {
		t.Errorf("%v, %v", made, err)
	}
	bad := pod("bad")
	bad.Spec.Containers[0].Image = "bad"
	for range 2 { // twice: equal pods may be known
		if _, err := c.CoreV1().Pods("default").Create(t.Context(), bad, metav1.CreateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "denied one or more images: bad") {
			t.Errorf("a bad image: %v", err)
		}
	}
	made.Spec.Containers[0].Image = "bad"
	if _, err := c.CoreV1().Pods("default").Update(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("changed to a bad image: %v", err)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
	}}
	if _, err := c.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim, metav1.CreateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "insufficient quota to consume: requests.storage") {
		t.Errorf("a claim without a quota: %v", err)
	}
	configure(t, c, validatingHook(h, nil, "configmaps"))
	waitFor(t, func() bool {
		_, _ = c.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c"}}, metav1.CreateOptions{})
		return shown.Load() != nil
	})
	if got := shown.Load(); got != "Bearer for-the-webhook" && got != "Bearer for-others" {
		t.Errorf("the webhook was shown %q", got)
	}
}
