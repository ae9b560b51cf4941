package api_test

import (
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// An autoscaler is one object in two versions: what v1 has no field for is in its
// annotations, and comes back from there; a watch has the version it asks for.
func TestAutoscalers(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s)
	one, two := c.AutoscalingV1().HorizontalPodAutoscalers("default"), c.AutoscalingV2().HorizontalPodAutoscalers("default")
	memory := autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: corev1.ResourceMemory, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(resource.MustParse("1Gi"))}}}
	watched, err := one.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	if _, err := two.Create(ctx, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "h"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"}, MaxReplicas: 3,
		Metrics: []autoscalingv2.MetricSpec{memory}, Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := <-watched.ResultChan(); e.Object.(*autoscalingv1.HorizontalPodAutoscaler).Spec.MaxReplicas != 3 {
		t.Errorf("watched: %+v", e)
	}
	old, err := one.Get(ctx, "h", metav1.GetOptions{})
	if err != nil || old.Spec.TargetCPUUtilizationPercentage != nil ||
		!strings.Contains(old.Annotations["autoscaling.alpha.kubernetes.io/metrics"], `"targetAverageValue":"1Gi"`) ||
		!strings.Contains(old.Annotations["autoscaling.alpha.kubernetes.io/behavior"], `"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max"`) {
		t.Fatalf("through v1: %+v, %v", old, err)
	}
	percent := int32(60)
	old.Spec.TargetCPUUtilizationPercentage = &percent
	if _, err := one.Update(ctx, old, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := two.Get(ctx, "h", metav1.GetOptions{})
	if err != nil || len(got.Spec.Metrics) != 2 || got.Spec.Metrics[0].Resource.Name != corev1.ResourceMemory || *got.Spec.Metrics[1].Resource.Target.AverageUtilization != 60 ||
		got.Spec.Behavior == nil || len(got.Spec.Behavior.ScaleDown.Policies) != 1 || len(got.Annotations) != 0 {
		t.Errorf("after an update of v1: %+v, %v", got, err)
	}
	if got, err = two.Patch(ctx, "h", types.MergePatchType, []byte(`{"status":{"currentReplicas":2,"desiredReplicas":3},"spec":{"maxReplicas":9}}`), metav1.PatchOptions{}, "status"); err != nil ||
		got.Status.CurrentReplicas != 2 || got.Spec.MaxReplicas != 3 {
		t.Errorf("status: %+v, %v", got, err)
	}
	list, err := one.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Status.CurrentReplicas != 2 {
		t.Errorf("list of v1: %+v, %v", list, err)
	}
	// Each version's managed fields are of that version.
	if got, err = two.Get(ctx, "h", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	versions := map[string]bool{}
	for _, m := range got.ManagedFields {
		versions[m.APIVersion] = true
		if strings.Contains(string(m.FieldsV1.Raw), "status") != (m.Subresource == "status") {
			t.Errorf("%s of %s has %s", m.APIVersion, m.Subresource, m.FieldsV1.Raw)
		}
	}
	if !versions["autoscaling/v1"] || !versions["autoscaling/v2"] {
		t.Errorf("managed fields: %v", got.ManagedFields)
	}
	body, err := c.AutoscalingV1().RESTClient().Get().Namespace("default").Resource("horizontalpodautoscalers").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	if err != nil || !strings.Contains(string(body), `"Deployment/d","memory: \u003cunknown\u003e/1Gi, cpu: \u003cunknown\u003e/60%","1",3,2`) {
		t.Errorf("table of v1: %s, %v", body, err)
	}
	groups, err := c.Discovery().ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == "autoscaling" })
	if i < 0 || groups.Groups[i].PreferredVersion.Version != "v2" || len(groups.Groups[i].Versions) != 2 {
		t.Errorf("group: %+v", groups.Groups)
	}
	client := dynamic.NewForConfigOrDie(must(kubeconfig(s)))
	for _, v := range []string{"v1", "v2"} {
		o, err := client.Resource(schema.GroupVersionResource{Group: "autoscaling", Version: v, Resource: "horizontalpodautoscalers"}).Namespace("default").Get(ctx, "h", metav1.GetOptions{})
		if err != nil || o.GetAPIVersion() != "autoscaling/"+v {
			t.Errorf("%s: %v, %v", v, o, err)
		}
	}
	if err := one.Delete(ctx, "h", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
