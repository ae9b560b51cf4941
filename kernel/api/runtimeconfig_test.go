package api_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/enablement"
)

// TestRuntimeConfig: a version or a resource that is not served is in no document, and its objects stay.
func TestRuntimeConfig(t *testing.T) {
	dir := t.TempDir()
	at := func(name string, config map[string]string, check func(t *testing.T, s *api.Server, c *kubernetes.Clientset)) {
		t.Run(name, func(t *testing.T) {
			s, _ := startWith(t, dir, func(c *api.Config) { c.RuntimeConfig = config })
			check(t, s, kubernetes.NewForConfigOrDie(s.ClientConfig(admin)))
		})
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	at("all is served", nil, func(t *testing.T, _ *api.Server, c *kubernetes.Clientset) {
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}
		if _, err := c.AppsV1().DaemonSets("default").Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "h"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			MaxReplicas: 2, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "x", APIVersion: "apps/v1"},
		}}
		if _, err := c.AutoscalingV2().HorizontalPodAutoscalers("default").Create(t.Context(), scaler, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	less := map[string]string{"apps/v1/daemonsets": "false", "autoscaling/v1": "false", "certificates.k8s.io/v1": "false"}
	at("less is served", less, func(t *testing.T, s *api.Server, c *kubernetes.Clientset) {
		groups, lists, err := c.Discovery().ServerGroupsAndResources()
		if err != nil {
			t.Fatal(err)
		}
		var served []string
		for _, l := range lists {
			for _, r := range l.APIResources {
				served = append(served, l.GroupVersion+"/"+r.Name)
			}
		}
		for _, gone := range []string{"apps/v1/daemonsets", "apps/v1/daemonsets/status", "autoscaling/v1/horizontalpodautoscalers", "certificates.k8s.io/v1/certificatesigningrequests"} {
			if slices.Contains(served, gone) {
				t.Errorf("%s is listed", gone)
			}
		}
		for _, stays := range []string{"apps/v1/deployments", "autoscaling/v2/horizontalpodautoscalers"} {
			if !slices.Contains(served, stays) {
				t.Errorf("%s is not listed", stays)
			}
		}
		for _, g := range groups {
			if g.Name == "certificates.k8s.io" {
				t.Error("a group without versions is listed")
			}
		}
		if _, err := c.AppsV1().DaemonSets("default").Get(t.Context(), "d", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a daemon set is read: %v", err)
		}
		if _, err := c.AutoscalingV1().HorizontalPodAutoscalers("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("autoscalers are listed in v1: %v", err)
		}
		if _, err := c.AutoscalingV2().HorizontalPodAutoscalers("default").Get(t.Context(), "h", metav1.GetOptions{}); err != nil {
			t.Errorf("an autoscaler in v2: %v", err)
		}
		for _, path := range []string{"/openapi/v3", "/openapi/v2", "/openapi/v3/apis/apps/v1"} {
			body, err := overTLS(t, s).Discovery().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, gone := range []string{"certificates.k8s.io/v1", "autoscaling/v1\"", "namespaces/{namespace}/daemonsets"} {
				if strings.Contains(string(body), gone) {
					t.Errorf("%s tells of %s", path, gone)
				}
			}
		}
	})
	at("all is served again", map[string]string{"api/all": "true"}, func(t *testing.T, _ *api.Server, c *kubernetes.Clientset) {
		if _, err := c.AppsV1().DaemonSets("default").Get(t.Context(), "d", metav1.GetOptions{}); err != nil {
			t.Errorf("the daemon set did not stay: %v", err)
		}
	})
	for config, want := range map[string]string{"v1/pods": "unknown api groups v1/pods", "policy/v1": "the kernel needs it", "apps/v1beta1": "has not been registered"} {
		_, _, err := build(t, api.Config{DataDir: t.TempDir(), RuntimeConfig: map[string]string{config: "false"}})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s=false: %v, want %q", config, err, want)
		}
	}
}

// TestKnownResources: the list by which a configuration is checked without a server is
// what a server could serve.
func TestKnownResources(t *testing.T) {
	s := start(t, t.TempDir())
	names := func(list []schema.GroupVersionResource) (out []string) {
		for _, r := range list {
			out = append(out, r.Group+"/"+r.Version+"/"+r.Resource)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	have, want := names(enablement.Known()), names(s.Possible())
	if !slices.Equal(have, want) {
		t.Errorf("kernel/api/enablement/resources.txt should have\n%s", strings.Join(want, "\n"))
	}
}
