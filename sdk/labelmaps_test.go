package sdk

import (
	"fmt"
	"maps"
	"reflect"
	"testing"
)

// Pods of different shapes share maps that are equal, and no others.
func TestPodsShareMaps(t *testing.T) {
	var l labelMaps
	pod := func(labels, selector map[string]string) *Pod {
		p := &Pod{Namespace: "a", Labels: maps.Clone(labels), NodeSelector: maps.Clone(selector), Containers: []Container{{Name: "c", Image: "i"}}}
		l.share(p)
		if !maps.Equal(p.Labels, labels) || !maps.Equal(p.NodeSelector, selector) || p.Namespace != "a" || p.Containers[0] != (Container{Name: "c", Image: "i"}) {
			t.Fatalf("labels %v and selector %v became %+v", labels, selector, p)
		}
		return p
	}
	same := func(a, b map[string]string) bool {
		return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
	}
	one := pod(map[string]string{"app": "web", "tier": "front"}, map[string]string{"disk": "ssd"})
	for name, tc := range map[string]struct {
		labels map[string]string
		want   bool
	}{
		"equal":           {map[string]string{"tier": "front", "app": "web"}, true},
		"another value":   {map[string]string{"tier": "back", "app": "web"}, false},
		"fewer":           {map[string]string{"app": "web"}, false},
		"borders shifted": {map[string]string{"appw": "eb", "tier": "front"}, false},
	} {
		other := pod(tc.labels, nil)
		if got := same(one.Labels, other.Labels); got != tc.want {
			t.Errorf("%s: shared %v, want %v", name, got, tc.want)
		}
	}
	if other := pod(nil, map[string]string{"disk": "ssd"}); !same(other.NodeSelector, one.NodeSelector) || other.Labels != nil {
		t.Errorf("%+v", other)
	}
	// What is remembered is bounded.
	for i := range 3 * maxShapes {
		pod(map[string]string{"n": fmt.Sprint(i)}, nil)
	}
	if len(l.known) > maxShapes || len(l.words.known) > maxWords {
		t.Errorf("%d maps and %d words are remembered", len(l.known), len(l.words.known))
	}
}
