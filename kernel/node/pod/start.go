package pod

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/image"
	"pintle.dev/pintle/kernel/node/sandbox"
	"pintle.dev/pintle/kernel/node/status"
	"pintle.dev/pintle/kernel/node/volume"
)

// starting is what containers of one round are started with.
type starting struct {
	pod     *corev1.Pod
	rt      *cri.PodStatus
	id      string // sandbox
	config  *runtimeapi.PodSandboxConfig
	ips     []string
	secrets []*corev1.Secret
}

// carryOut does what compute decided and answers when something is due again (a back-off that ends).
func (m *Manager) carryOut(ctx context.Context, e *entry, pod *corev1.Pod, rt *cri.PodStatus, todo actions) (time.Duration, error) {
	if todo.killPod {
		if todo.sandbox && len(rt.Sandboxes) > 0 {
			m.event(pod, "", corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
		}
		if err := m.stopPod(ctx, pod, rt, nil); err != nil {
			m.event(pod, "", corev1.EventTypeWarning, "FailedKillPod", fmt.Sprintf("error killing pod: %v", err))
			return retryFast, err
		}
		if !todo.sandbox {
			return 0, nil
		}
	}
	for _, k := range todo.kills {
		if err := m.stopContainer(ctx, pod, k.spec, k.target, k.message, k.reason, nil, nil); err != nil {
			return retryFast, fmt.Errorf("kill container %s: %w", k.target.Name, err)
		}
		// A killed container counts as ended from here on.
		k.target.State = runtimeapi.ContainerState_CONTAINER_EXITED
		if k.target.Finished.IsZero() {
			k.target.Finished = time.Now()
		}
	}
	if len(todo.ephemeral)+len(todo.init)+len(todo.main) == 0 && !todo.sandbox {
		return 0, nil
	}
	s := &starting{pod: pod, rt: rt}
	if err := m.ensureSandbox(ctx, s, todo); err != nil {
		return retrySlow, err
	}
	if len(rt.Sandboxes) == 0 {
		e.sandbox = s.id
	}
	s.secrets = m.pullSecrets(ctx, pod)
	var next time.Duration
	var errs []error
	start := func(c *corev1.Container) bool {
		wait, err := m.start(ctx, e, s, c)
		if wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
		if err != nil {
			errs = append(errs, err)
		}
		return err == nil && wait == 0
	}
	for _, c := range todo.ephemeral {
		start(c)
	}
	for _, c := range todo.init {
		// A later init container waits for the earlier ones of this round, sidecars excepted.
		if !start(c) && !container.IsSidecar(c) {
			break
		}
		m.deps.Probes.Poke(pod.UID)
	}
	for _, c := range todo.main {
		start(c)
	}
	m.deps.Probes.Poke(pod.UID)
	if len(errs) > 0 && next == 0 {
		next = 2 * time.Second
	}
	return next, errors.Join(errs...)
}

func (m *Manager) ensureSandbox(ctx context.Context, s *starting, todo actions) error {
	pod := s.pod
	parent := ""
	if m.deps.Cgroups != nil {
		var err error
		if parent, err = m.deps.Cgroups.Ensure(pod); err != nil {
			m.event(pod, "", corev1.EventTypeWarning, "FailedCreatePodContainer", fmt.Sprintf("unable to ensure pod container exists: %v", err))
			return err
		}
	}
	config, warnings, err := sandbox.Config(sandbox.Input{Pod: pod, Attempt: todo.attempt, Resolver: m.cfg.Resolver, LogDir: m.cfg.LogDir, CgroupParent: parent})
	if err != nil {
		m.event(pod, "", corev1.EventTypeWarning, "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", err))
		return err
	}
	s.config = config
	if !todo.sandbox {
		s.id, s.ips = s.rt.Sandboxes[0].Id, s.rt.IPs
		return nil
	}
	for _, w := range warnings {
		m.event(pod, "", corev1.EventTypeWarning, w.Reason, w.Message)
	}
	if err := m.makeDir(config.LogDirectory); err != nil {
		m.event(pod, "", corev1.EventTypeWarning, "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", err))
		return err
	}
	handler, err := m.runtimeHandler(ctx, pod)
	if err == nil {
		s.id, err = m.runSandbox(ctx, config, handler)
	}
	if err != nil {
		if ctx.Err() == nil {
			m.event(pod, "", corev1.EventTypeWarning, "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", err))
		}
		return fmt.Errorf("create sandbox: %w", err)
	}
	made, err := m.sandboxOf(ctx, s.id)
	if err != nil {
		m.event(pod, "", corev1.EventTypeWarning, "FailedPodSandBoxStatus", fmt.Sprintf("Unable to get pod sandbox status: %v", err))
		return err
	}
	if ips := m.deps.CRI.SandboxIPs(made); len(ips) > 0 {
		s.ips = ips
	}
	s.rt.IPs = s.ips
	return nil
}

// runSandbox runs a sandbox; where the runtime was built without seccomp its pause process, which runs nothing of the
// pod's, goes without a profile. Containers do so only where that is waived (requireSeccomp).
func (m *Manager) runSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	unconfined := &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
	resp, err := m.deps.CRI.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
	if err == nil {
		m.noSeccomp.Delete(handler) // mended meanwhile
	} else if strings.Contains(cri.Message(err), "seccomp not supported") {
		if _, told := m.noSeccomp.Swap(handler, true); !told { // of several pods that find out at once, one tells
			m.deps.Logger.Warn("the container runtime has no seccomp; build runc with libseccomp to mend it", "handler", handler, "waived", m.cfg.SeccompWaived)
		}
		config.Linux.SecurityContext.Seccomp = unconfined
		resp, err = m.deps.CRI.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
	}
	if err != nil {
		return "", err
	}
	return resp.PodSandboxId, nil
}

// pullSecrets reads the pod's pull secrets; those that are missing are told once a round and done without.
func (m *Manager) pullSecrets(ctx context.Context, pod *corev1.Pod) []*corev1.Secret {
	var out []*corev1.Secret
	var missing []string
	src := m.deps.Objects.For(pod.UID)
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" {
			continue
		}
		secret, err := src.Secret(ctx, pod.Namespace, ref.Name)
		if err != nil {
			missing = append(missing, ref.Name)
			continue
		}
		out = append(out, secret)
	}
	if len(missing) > 0 && ctx.Err() == nil {
		m.event(pod, "", corev1.EventTypeWarning, "FailedToRetrieveImagePullSecret",
			fmt.Sprintf("Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", strings.Join(missing, ", ")))
	}
	return out
}

// backingOff answers how long a container that ended must still wait, by the times it ended before.
func (m *Manager) backingOff(pod *corev1.Pod, c *corev1.Container, rt *cri.PodStatus) (time.Duration, string) {
	ct := rt.Find(c.Name)
	if ct == nil || !ct.Exited() {
		return 0, ""
	}
	key := fmt.Sprintf("%s_%s_%s_%s_%x", pod.Name, pod.Namespace, pod.UID, c.Name, cri.HashContainer(c))
	ended := ct.Finished
	if m.backoff.IsInBackOffSince(key, ended) {
		delay := m.backoff.Get(key)
		return max(time.Until(ended.Add(delay)), time.Millisecond),
			fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", delay, c.Name, container.Format(pod))
	}
	m.backoff.Next(key, ended)
	return 0, ""
}

// start brings one container up. A wait says that its back-off is not over.
func (m *Manager) start(ctx context.Context, e *entry, s *starting, c *corev1.Container) (time.Duration, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if wait, message := m.backingOff(s.pod, c, s.rt); wait > 0 {
		m.event(s.pod, c.Name, corev1.EventTypeWarning, "BackOff", fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.Name, container.Format(s.pod)))
		e.waiting[c.Name] = status.Waiting{Reason: "CrashLoopBackOff", Message: message}
		return wait, nil
	}
	fail := func(reason, message string) error {
		if ctx.Err() == nil {
			e.waiting[c.Name] = status.Waiting{Reason: reason, Message: message}
		}
		return fmt.Errorf("failed to %q for %q with %s: %q", "StartContainer", c.Name, reason, message)
	}
	told := func(text string) {
		if ctx.Err() == nil {
			m.event(s.pod, c.Name, corev1.EventTypeWarning, "Failed", "Error: "+text)
		}
	}
	img, err := m.deps.Images.Ensure(ctx, s.pod, c, s.secrets, s.config)
	if err != nil {
		var ie *image.Error
		if !errors.As(err, &ie) {
			ie = &image.Error{Reason: image.ReasonPull, Message: err.Error()}
		}
		told(string(ie.Reason))
		return 0, fail(string(ie.Reason), ie.Message)
	}
	images, err := m.imageVolumes(ctx, s, c)
	if err != nil {
		var ie *image.Error
		if !errors.As(err, &ie) {
			ie = &image.Error{Reason: image.ReasonPull, Message: err.Error()}
		}
		told(string(ie.Reason))
		return 0, fail(string(ie.Reason), ie.Message)
	}
	config, err := m.containerConfig(ctx, s, c, img, images)
	if err != nil {
		told(err.Error())
		return 0, fail("CreateContainerConfigError", err.Error())
	}
	if r := config.GetLinux().GetResources(); r != nil {
		r.OomScoreAdj = max(r.OomScoreAdj, m.cfg.LeastOOMScore)
		r.HugepageLimits = container.HugePageLimits(c, m.cfg.HugePages)
	}
	if err := m.requireSeccomp(ctx, s, c, config); err != nil {
		told(err.Error())
		return 0, fail("CreateContainerError", err.Error())
	}
	created, err := m.deps.CRI.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: s.id, Config: config, SandboxConfig: s.config})
	if err != nil {
		told(cri.Message(err))
		return 0, fail("CreateContainerError", cri.Message(err))
	}
	m.event(s.pod, c.Name, corev1.EventTypeNormal, "Created", "Container created")
	if _, err := m.deps.CRI.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: created.ContainerId}); err != nil {
		told(cri.Message(err))
		return 0, fail("RunContainerError", cri.Message(err))
	}
	m.event(s.pod, c.Name, corev1.EventTypeNormal, "Started", "Container started")
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
		ip := ""
		if len(s.ips) > 0 {
			ip = s.ips[0]
		} else if s.pod.Spec.HostNetwork && len(m.deps.Node.HostIPs()) > 0 {
			ip = m.deps.Node.HostIPs()[0]
		}
		if err := m.hook(ctx, c.Lifecycle.PostStart, s.pod, c, created.ContainerId, ip); err != nil && ctx.Err() == nil {
			m.deps.Logger.Warn("postStart hook failed", "pod", name(s.pod), "container", c.Name, "err", err)
			m.event(s.pod, c.Name, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed") // the details are in the waiting message (001 §7 shows them here)
			target := &cri.Container{ID: created.ContainerId, Name: c.Name, State: runtimeapi.ContainerState_CONTAINER_RUNNING}
			if kerr := m.stopContainer(ctx, s.pod, c, target, "FailedPostStartHook", killOther, nil, nil); kerr != nil {
				m.deps.Logger.Warn("could not kill container after its postStart hook failed", "pod", name(s.pod), "container", c.Name, "err", kerr)
			}
			return 0, fail("PostStartHookError", err.Error())
		}
	}
	delete(e.waiting, c.Name)
	return 0, nil
}

// imageVolumes brings the images of the volumes that a container mounts to the node, by volume.
func (m *Manager) imageVolumes(ctx context.Context, s *starting, c *corev1.Container) (map[string]*runtimeapi.ImageSpec, error) {
	var out map[string]*runtimeapi.ImageSpec
	for i := range s.pod.Spec.Volumes {
		v := &s.pod.Spec.Volumes[i]
		if v.Image == nil || out[v.Name] != nil || !slices.ContainsFunc(c.VolumeMounts, func(vm corev1.VolumeMount) bool { return vm.Name == v.Name }) {
			continue
		}
		img, err := m.deps.Images.Ensure(ctx, s.pod, &corev1.Container{Name: c.Name, Image: v.Image.Reference, ImagePullPolicy: v.Image.PullPolicy}, s.secrets, s.config)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = map[string]*runtimeapi.ImageSpec{}
		}
		out[v.Name] = &runtimeapi.ImageSpec{Image: img.Ref, UserSpecifiedImage: v.Image.Reference, Annotations: s.pod.Annotations}
	}
	return out, nil
}

func (m *Manager) containerConfig(ctx context.Context, s *starting, c *corev1.Container, img *image.Image, images map[string]*runtimeapi.ImageSpec) (*runtimeapi.ContainerConfig, error) {
	services, err := m.deps.Services()
	if err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	hostIPs := m.deps.Node.HostIPs()
	ips := s.ips
	if s.pod.Spec.HostNetwork {
		ips = hostIPs
	}
	var files func(volume, path string) ([]byte, error)
	if !m.cfg.SkipVolumes {
		files = func(volume, path string) ([]byte, error) { return m.deps.Volumes.ReadFile(s.pod, volume, path) }
	}
	env, values, err := container.Env(ctx, container.EnvInput{
		Pod: s.pod, Container: c, Services: services,
		Addresses:   container.Addresses{PodIPs: ips, HostIPs: hostIPs},
		Allocatable: m.allocatable(),
		File:        files,
		Skipped: func(kind, object string, keys []string) {
			m.event(s.pod, "", corev1.EventTypeWarning, "InvalidEnvironmentVariableNames",
				fmt.Sprintf("Keys [%s] from the EnvFrom %s %s were skipped since they are considered invalid environment variable names.", strings.Join(keys, ", "), strings.ToLower(kind), object))
		},
	}, m.deps.Objects.For(s.pod.UID))
	if err != nil {
		return nil, err
	}
	var mounts []*runtimeapi.Mount
	if !m.cfg.SkipVolumes {
		host, domain := sandbox.Hostname(s.pod, m.cfg.Resolver.ClusterDomain)
		if mounts, err = m.deps.Volumes.Mounts(volume.ContainerInput{Pod: s.pod, Container: c, Env: values, Images: images, PodIPs: s.ips, Host: host, Domain: domain}); err != nil {
			return nil, err
		}
	}
	restarts := m.restarts(s, c)
	if err := m.makeDir(s.config.LogDirectory + "/" + c.Name); err != nil {
		return nil, fmt.Errorf("create log directory for container %s failed: %w", c.Name, err)
	}
	var unified map[string]string
	if m.deps.Cgroups != nil {
		unified = m.deps.Cgroups.Unified()
	}
	config, err := container.Config(container.Input{
		Pod: s.pod, Container: c, Restarts: restarts, ImageID: img.Ref, Env: env, EnvValues: values, Mounts: mounts,
		User: img.User, MemoryCapacity: m.deps.Node.MemoryCapacity(), Seccomp: m.cfg.Seccomp, TargetID: m.target(s, c),
		Unified: unified,
	})
	return config, err
}

// requireSeccomp refuses a container with the profile RuntimeDefault where the runtime has no seccomp, or takes the
// profile away where that is waived, with an event. A profile of the pod's own (Localhost) is never waived: the runtime
// refuses it.
func (m *Manager) requireSeccomp(ctx context.Context, s *starting, c *corev1.Container, config *runtimeapi.ContainerConfig) error {
	seccomp := config.GetLinux().GetSecurityContext().GetSeccomp()
	if seccomp.GetProfileType() != runtimeapi.SecurityProfile_RuntimeDefault {
		return nil
	}
	handler, err := m.runtimeHandler(ctx, s.pod)
	if err != nil {
		return err
	}
	if _, without := m.noSeccomp.Load(handler); !without {
		return nil
	}
	if !m.cfg.SeccompWaived {
		return errors.New("seccomp profile RuntimeDefault cannot be applied: the container runtime was built without seccomp")
	}
	seccomp.ProfileType = runtimeapi.SecurityProfile_Unconfined
	m.event(s.pod, c.Name, corev1.EventTypeWarning, "SeccompUnavailable",
		"The container runtime was built without seccomp: container runs without the RuntimeDefault profile")
	return nil
}

// restarts is the restart count of the container about to be made: one more than the last one's, which may be known
// from the API only.
func (m *Manager) restarts(s *starting, c *corev1.Container) int32 {
	if ct := s.rt.Find(c.Name); ct != nil {
		return ct.RestartCount + 1
	}
	st := m.previous(s.pod)
	for _, list := range [][]corev1.ContainerStatus{st.ContainerStatuses, st.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == c.Name {
				// Generate has counted a running container that vanished already.
				n := list[i].RestartCount
				if list[i].State.Running != nil || list[i].State.Terminated != nil {
					n++
				}
				return n
			}
		}
	}
	return 0
}

// target is the container whose processes an ephemeral container wants to see.
func (m *Manager) target(s *starting, c *corev1.Container) string {
	for i := range s.pod.Spec.EphemeralContainers {
		ec := &s.pod.Spec.EphemeralContainers[i]
		if ec.Name == c.Name && ec.TargetContainerName != "" {
			if ct := s.rt.Find(ec.TargetContainerName); ct != nil {
				return ct.ID
			}
		}
	}
	return ""
}

func (m *Manager) allocatable() corev1.ResourceList {
	if node := m.deps.Node.Object(); node != nil {
		return node.Status.Allocatable
	}
	return nil
}

// Exec runs a command in a container; it implements probe.Exec.
func (m *Manager) Exec(ctx context.Context, id string, command []string, timeout time.Duration) (int, []byte, error) {
	return Exec(ctx, m.deps.CRI, id, command, timeout)
}

// Exec runs a command in a container over CRI and answers exit code and combined output.
func Exec(ctx context.Context, client *cri.Client, id string, command []string, timeout time.Duration) (int, []byte, error) {
	var cancel context.CancelFunc
	if timeout > 0 {
		// The runtime keeps the time; the call is given a little longer to say so.
		ctx, cancel = context.WithTimeout(ctx, timeout+10*time.Second)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	seconds := int64(timeout / time.Second)
	if timeout > 0 && seconds == 0 {
		seconds = 1
	}
	if timeout == 0 {
		// Without a limit of its own the command ends with the caller; CRI's clock needs a deadline all the same.
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, 24*time.Hour)
		defer stop()
	}
	resp, err := client.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: seconds})
	if err != nil {
		if isDeadline(err) {
			return -1, nil, context.DeadlineExceeded
		}
		return -1, nil, err
	}
	return int(resp.ExitCode), append(resp.Stdout, resp.Stderr...), nil
}

// makeDir makes a folder for logs, where the runtime writes any.
func (m *Manager) makeDir(dir string) error {
	if m.cfg.SkipVolumes {
		return nil
	}
	return os.MkdirAll(dir, 0o755)
}
