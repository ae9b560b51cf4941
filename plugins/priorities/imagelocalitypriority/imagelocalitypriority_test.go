package imagelocalitypriority

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestScore(t *testing.T) {
	node := func(size int64) *sdk.Node {
		return &sdk.Node{Images: []sdk.Image{
			{Names: []string{"registry:5000/app:v1", "registry:5000/app@sha256:00"}, SizeBytes: size},
			{Names: []string{"busybox:latest"}, SizeBytes: 500 * mb},
		}}
	}
	app := []sdk.Container{{Image: "registry:5000/app:v1"}}
	for _, c := range []struct {
		name       string
		size       int64
		containers []sdk.Container
		want       int64
	}{
		{"FIL-8: just below the floor", 23*mb - 1, app, 0},
		{"FIL-8: the floor", 23 * mb, app, 1},
		{"FIL-8: half way", 511 * mb, app, 5},
		{"FIL-8: just below the ceiling", 1000*mb - 1, app, 10},
		{"FIL-8: the ceiling", 1000 * mb, app, 10},
		{"FIL-8: beyond", 4000 * mb, app, 10},
		{"PRI-33: not present", 500 * mb, []sdk.Container{{Image: "other:v1"}}, 0},
		{"PRI-33: by digest", 1000 * mb, []sdk.Container{{Image: "registry:5000/app@sha256:00"}}, 10},
		{"PRI-33: the sum of two containers", 500 * mb, []sdk.Container{{Image: "registry:5000/app:v1"}, {Image: "busybox"}}, 10},
		{"no tag means latest", 0, []sdk.Container{{Image: "busybox"}}, 5},
		{"a port is no tag", 1000 * mb, []sdk.Container{{Image: "registry:5000/app"}}, 0},
		{"no containers", 1000 * mb, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, pod := New(), &sdk.Pod{Containers: c.containers}
			for _, state := range []any{p.Prepare(nil, pod), nil} {
				if got := p.Score(&sdk.Request{Pod: pod, Node: node(c.size), State: state}); got != c.want {
					t.Errorf("got %d, want %d", got, c.want)
				}
			}
		})
	}
}
