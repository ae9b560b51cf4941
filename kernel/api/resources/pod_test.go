package resources

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// plainPod is what an ordinary client sends.
func plainPod(change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "nginx:1.27",
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
			Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
			},
		}}},
	}
	for _, c := range change {
		c(pod)
	}
	setPodDefaults(pod)
	return pod
}

// D-5, POD-8: a pod restarts always and has 30 seconds to end.
func TestPodDefaults(t *testing.T) {
	pod := plainPod(func(p *corev1.Pod) {
		p.Spec.HostNetwork = true
		p.Spec.Volumes = []corev1.Volume{{Name: "v"}, {Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}}}
		c := &p.Spec.Containers[0]
		c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
	})
	s, c := &pod.Spec, &pod.Spec.Containers[0]
	probe := c.LivenessProbe
	for _, tc := range []struct {
		name      string
		got, want any
	}{
		{"restartPolicy", s.RestartPolicy, corev1.RestartPolicyAlways},
		{"dnsPolicy", s.DNSPolicy, corev1.DNSClusterFirst},
		{"grace", *s.TerminationGracePeriodSeconds, int64(30)},
		{"scheduler", s.SchedulerName, "default-scheduler"},
		{"links", *s.EnableServiceLinks, true},
		{"security", *s.SecurityContext, corev1.PodSecurityContext{}},
		{"pull", c.ImagePullPolicy, corev1.PullIfNotPresent},
		{"protocol", c.Ports[0].Protocol, corev1.ProtocolTCP},
		{"host port", c.Ports[0].HostPort, int32(80)},
		{"message path", c.TerminationMessagePath, "/dev/termination-log"},
		{"request", c.Resources.Requests.Cpu().String(), "100m"},
		{"probe", [4]int32{probe.TimeoutSeconds, probe.PeriodSeconds, probe.SuccessThreshold, probe.FailureThreshold}, [4]int32{1, 10, 1, 3}},
		{"probe path", probe.HTTPGet.Path + string(probe.HTTPGet.Scheme), "/HTTP"},
		{"empty volume", s.Volumes[0].EmptyDir != nil, true},
		{"host path", *s.Volumes[1].HostPath.Type, corev1.HostPathUnset},
	} {
		if !equal(tc.got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, tc.got, tc.want)
		}
	}
}

func TestImageTag(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"nginx": corev1.PullAlways, "nginx:latest": corev1.PullAlways, "nginx:1.27": corev1.PullIfNotPresent,
		"localhost:5000/a/b": corev1.PullAlways, "localhost:5000/a/b:v1": corev1.PullIfNotPresent,
		"a@sha256:" + strings.Repeat("a", 64): corev1.PullIfNotPresent, "Upper": corev1.PullIfNotPresent, "": corev1.PullIfNotPresent,
	} {
		if got := defaultPullPolicy(image); got != want {
			t.Errorf("%q: got %s, want %s", image, got, want)
		}
	}
}

func TestPodValidation(t *testing.T) {
	app := func(f func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { f(&p.Spec.Containers[0]) }
	}
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		want   []string
	}{
		{"ordinary", func(*corev1.Pod) {}, nil},
		{"no containers", func(p *corev1.Pod) { p.Spec.Containers = nil }, []string{"spec.containers: Required value"}},
		{"no image", app(func(c *corev1.Container) { c.Image = "" }), []string{"spec.containers[0].image: Required value"}},
		{"name twice", func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "app", Image: "b"})
		},
			[]string{`spec.containers[1].name: Duplicate value: "app"`}},
		{"mount of nothing", app(func(c *corev1.Container) { c.VolumeMounts = []corev1.VolumeMount{{Name: "x", MountPath: "/x"}} }),
			[]string{`spec.containers[0].volumeMounts[0].name: Not found: "x"`}},
		{"two sources", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "x", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{}, HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}}}
		}, []string{"spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"}},
		{"request above limit", app(func(c *corev1.Container) {
			c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}), []string{`spec.containers[0].resources.requests: Invalid value: "1": must be less than or equal to cpu limit of 100m`}},
		{"restart policy", func(p *corev1.Pod) { p.Spec.RestartPolicy = "Sometimes" },
			[]string{`spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"`}},
		{"probe without handler", app(func(c *corev1.Container) { c.ReadinessProbe = &corev1.Probe{} }),
			[]string{"spec.containers[0].readinessProbe: Required value: must specify a handler type"}},
		{"liveness twice", app(func(c *corev1.Container) {
			c.LivenessProbe = &corev1.Probe{SuccessThreshold: 2, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}}
		}), []string{"spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"}},
		{"init probe", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "i", LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}}}
		}, []string{"spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always"}},
		{"env source", app(func(c *corev1.Container) { c.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{}}} }),
			[]string{"spec.containers[0].env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"}},
		{"label subscript", app(func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"}}}}
		}), nil},
		{"toleration", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: "Equal"}} },
			[]string{`spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when ` + "`key`" + ` is empty, which means "match all values and all keys"`}},
		{"ephemeral at create", func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "e"}}}
		}, []string{"spec.ephemeralContainers: Forbidden: cannot be set on create"}},
		{"dns none", func(p *corev1.Pod) { p.Spec.DNSPolicy = corev1.DNSNone },
			[]string{"spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"}},
		{"unknown resource", app(func(c *corev1.Container) { c.Resources.Limits["disk"] = resource.MustParse("1") }),
			[]string{`spec.containers[0].resources.limits[disk]: Invalid value: "disk": must be a standard resource type or fully qualified`,
				`spec.containers[0].resources.limits[disk]: Invalid value: "disk": must be a standard resource for containers`,
				`spec.containers[0].resources.requests[disk]: Invalid value: "disk": must be a standard resource type or fully qualified`,
				`spec.containers[0].resources.requests[disk]: Invalid value: "disk": must be a standard resource for containers`}},
		{"windows", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: "windows"}; p.Spec.HostPID = true },
			[]string{"spec.hostPID: Forbidden: cannot be set for a windows pod"}},
		{"host port twice", app(func(c *corev1.Container) {
			c.Ports = []corev1.ContainerPort{{ContainerPort: 1, HostPort: 9}, {ContainerPort: 2, HostPort: 9}}
		}), []string{`spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//9"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, e := range validatePodCreate(plainPod(tc.change)) {
				got = append(got, e.Error())
			}
			if strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}

func TestPodUpdate(t *testing.T) {
	for _, tc := range []struct {
		name        string
		old, change func(*corev1.Pod)
		want        string
	}{
		{"image", nil, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "nginx:2" }, ""},
		{"label", nil, func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, ""},
		{"command", nil, func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"x"} }, "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"},
		{"added container", nil, func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0]) }, "pod updates may not add or remove containers"},
		{"toleration added", nil, func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: "Exists"}} }, ""},
		{"toleration gone", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: "Exists"}} }, func(p *corev1.Pod) { p.Spec.Tolerations = nil }, "existing toleration can not be modified"},
		{"deadline set", nil, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](5) }, ""},
		{"deadline longer", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](5) }, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](9) }, "must be less than or equal to previous value"},
		{"grace", nil, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1) }, "pod updates may not change fields"},
		{"gated selector", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }, ""},
		{"gate added", nil, func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }, "only deletion is allowed, but found new scheduling gate 'g'"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := plainPod(func(p *corev1.Pod) {
				p.ResourceVersion = "1"
				if tc.old != nil {
					tc.old(p)
				}
			})
			pod := old.DeepCopy()
			tc.change(pod)
			errs := validatePodUpdate(pod, old)
			switch {
			case tc.want == "" && len(errs) > 0:
				t.Errorf("refused: %v", errs)
			case tc.want != "" && (len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), tc.want)):
				t.Errorf("got %v, want %q", errs, tc.want)
			}
		})
	}
}

func TestPodStrategy(t *testing.T) {
	s := newPodStrategy()
	pod := plainPod()
	s.PrepareForCreate(t.Context(), pod)
	if pod.Generation != 1 || pod.Status.Phase != corev1.PodPending || pod.Status.QOSClass != corev1.PodQOSGuaranteed {
		t.Errorf("created with generation %d, status %+v", pod.Generation, pod.Status)
	}
	for _, tc := range []struct {
		name  string
		pod   corev1.Pod
		asked *int64
		want  int64
	}{
		{"unscheduled", corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](30)}}, nil, 0},
		{"ended", corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodFailed}}, ptr.To[int64](9), 0},
		{"its own", corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", TerminationGracePeriodSeconds: ptr.To[int64](30)}}, nil, 30},
		{"asked", corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", TerminationGracePeriodSeconds: ptr.To[int64](30)}}, ptr.To[int64](5), 5},
		{"negative", corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}, ptr.To[int64](-1), 1},
	} {
		options := &metav1.DeleteOptions{GracePeriodSeconds: tc.asked}
		if !s.CheckGracefulDelete(t.Context(), &tc.pod, options) || *options.GracePeriodSeconds != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, *options.GracePeriodSeconds, tc.want)
		}
	}
}

func TestPodResize(t *testing.T) {
	s := newPodStrategy()
	old := plainPod(func(p *corev1.Pod) { p.ResourceVersion = "1" })
	s.PrepareForCreate(t.Context(), old)
	set := func(q string) *corev1.Pod {
		pod := old.DeepCopy()
		for _, list := range []corev1.ResourceList{pod.Spec.Containers[0].Resources.Limits, pod.Spec.Containers[0].Resources.Requests} {
			list[corev1.ResourceCPU] = resource.MustParse(q)
		}
		pod.Spec.Containers[0].Image = "other"
		podResizeStrategy{s}.PrepareForUpdate(t.Context(), pod, old)
		return pod
	}
	pod := set("200m")
	if errs := validatePodResize(pod, old); len(errs) > 0 {
		t.Errorf("refused: %v", errs)
	}
	if pod.Spec.Containers[0].Image != "nginx:1.27" || pod.Generation != 2 {
		t.Errorf("image %s, generation %d", pod.Spec.Containers[0].Image, pod.Generation)
	}
	delete(pod.Spec.Containers[0].Resources.Limits, corev1.ResourceMemory)
	if errs := validatePodResize(pod, old); !strings.Contains(errs.ToAggregate().Error(), "resource limits cannot be removed") {
		t.Errorf("got %v", errs)
	}
}

func TestPodRow(t *testing.T) {
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	ended := func(reason string, code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for _, tc := range []struct {
		name                    string
		change                  func(*corev1.Pod)
		ready, status, restarts string
	}{
		{"pending", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, "0/1", "Pending", "0"},
		{"running", func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Ready: true, State: running}}
		}, "1/1", "Running", "0"},
		{"crash loop", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: 3, State: waiting("CrashLoopBackOff"),
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(time.Now().Add(-90 * time.Minute))}}}}
		}, "0/1", "CrashLoopBackOff", "3 (90m ago)"},
		{"completed", func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodSucceeded
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: ended("Completed", 0)}}
		}, "0/1", "Completed", "0"},
		{"exit code", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: ended("", 7)}}
		}, "0/1", "ExitCode:7", "0"},
		{"init", func(p *corev1.Pod) {
			p.Spec.InitContainers = make([]corev1.Container, 2)
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: ended("Completed", 0)}, {State: running}}
		}, "0/1", "Init:1/2", "0"},
		{"init failing", func(p *corev1.Pod) {
			p.Spec.InitContainers = make([]corev1.Container, 1)
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{RestartCount: 2, State: waiting("CrashLoopBackOff")}}
		}, "0/1", "Init:CrashLoopBackOff", "2"},
		{"sidecar", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "s", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
			p.Status.Phase = corev1.PodRunning
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "s", Ready: true, Started: ptr.To(true), State: running}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Ready: true, State: running}}
		}, "2/2", "Running", "0"},
		{"terminating", func(p *corev1.Pod) {
			now := metav1.Now()
			p.DeletionTimestamp = &now
			p.Status.Phase = corev1.PodRunning
		}, "0/1", "Terminating", "0"},
		{"lost", func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now; p.Status.Reason = "NodeLost" }, "0/1", "Unknown", "0"},
		{"gated", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Reason: "SchedulingGated"}}
		}, "0/1", "SchedulingGated", "0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cells, err := podRow(plainPod(tc.change))
			if err != nil {
				t.Fatal(err)
			}
			if len(cells) != len(podColumns()) || cells[1] != tc.ready || cells[2] != tc.status || cells[3] != tc.restarts {
				t.Errorf("got %v, want %s %s %s", cells, tc.ready, tc.status, tc.restarts)
			}
		})
	}
}

// TestKinds holds each kind's list to what the API server needs of it.
func TestKinds(t *testing.T) {
	kinds, err := All(Options{ServiceCIDR: "10.96.0.0/16"})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		obj := k.New()
		if k.Fields != nil {
			for name := range k.Fields(obj) {
				if !contains(k.FieldNames, name) {
					t.Errorf("%s: field %s is not among the names", k.Resource, name)
				}
			}
		}
		if gvks, _, err := k.Strategy.ObjectKinds(obj); err != nil || gvks[0] != k.GVK {
			t.Errorf("%s: kind %v, %v", k.Resource, gvks, err)
		}
		if k.Row != nil {
			cells, err := k.Row(obj)
			if err != nil || len(cells) != len(k.Columns) {
				t.Errorf("%s: %d cells for %d columns: %v", k.Resource, len(cells), len(k.Columns), err)
			}
		}
	}
	s := runtime.NewScheme()
	if err := corev1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	list := &corev1.PodList{Items: []corev1.Pod{{}}}
	s.Default(list)
	if list.Items[0].Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Error("items of lists are not defaulted")
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// BenchmarkPodCreate is the share of defaults and validation in a create.
func BenchmarkPodCreate(b *testing.B) {
	s := newPodStrategy()
	for b.Loop() {
		pod := plainPod()
		s.PrepareForCreate(b.Context(), pod)
		if errs := s.Validate(b.Context(), pod); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}
func equal(a, b any) bool { return reflect.DeepEqual(a, b) }

// TestHostNetworkPorts: a template may leave out what its pods get by default.
func TestHostNetworkPorts(t *testing.T) {
	pod := plainPod(func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	template := &corev1.PodTemplateSpec{Spec: *pod.Spec.DeepCopy()}
	template.Spec.Containers[0].Ports[0].HostPort = 0
	if errs := ValidatePodTemplateSpec(template, PodAllowances{}, specPath.Child("template")); len(errs) > 0 {
		t.Errorf("template refused: %v", errs)
	}
	pod.Spec.Containers[0].Ports[0].HostPort = 81
	want := "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true"
	if errs := validatePodCreate(pod); len(errs) != 1 || errs[0].Error() != want {
		t.Errorf("got %v", errs)
	}
}
