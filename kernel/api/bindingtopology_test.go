package api_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod that is bound has its node's zone and region as labels, by whichever way
// the binding comes.
func TestBindingLabels(t *testing.T) {
	s := start(t, t.TempDir())
	c := overTLS(t, s)
	ctx := t.Context()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelTopologyZone: "a", corev1.LabelTopologyRegion: "r", "other": "x"}}}
	if _, err := c.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	labelled := func(name string) error {
		p, err := c.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.Spec.NodeName != "n1" || p.Labels[corev1.LabelTopologyZone] != "a" || p.Labels[corev1.LabelTopologyRegion] != "r" || p.Labels["other"] != "" {
			return fmt.Errorf("on %q with labels %v", p.Spec.NodeName, p.Labels)
		}
		return nil
	}
	// The node is known when a pod that names it is labelled.
	deadline := time.Now().Add(2 * time.Minute)
	for i := 0; ; i++ {
		direct := pod(fmt.Sprintf("direct-%d", i))
		direct.Spec.NodeName = "n1"
		if _, err := c.CoreV1().Pods("default").Create(ctx, direct, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		err := labelled(direct.Name)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	binding := func(name string) *corev1.Binding {
		return &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
	}
	for name, bind := range map[string]func(*corev1.Binding) error{
		"one":      func(b *corev1.Binding) error { return s.Bind(ctx, b) },
		"together": func(b *corev1.Binding) error { return s.BindAll(ctx, []*corev1.Binding{b}, nil)[0] },
		"by-post":  func(b *corev1.Binding) error { return c.CoreV1().Pods("default").Bind(ctx, b, metav1.CreateOptions{}) },
	} {
		if _, err := c.CoreV1().Pods("default").Create(ctx, pod(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := bind(binding(name)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := labelled(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
