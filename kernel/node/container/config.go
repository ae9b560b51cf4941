package container

import (
	"fmt"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri"
)

// Input is what a ContainerConfig is made from.
type Input struct {
	Pod            *corev1.Pod
	Container      *corev1.Container
	Restarts       int32
	ImageID        string // what CreateContainer gets: the id that the pull answered
	Env            []*runtimeapi.KeyValue
	EnvValues      map[string]string // for $(VAR) in command and args; services included
	Mounts         []*runtimeapi.Mount
	Devices        []*runtimeapi.Device
	User           ImageUser
	MemoryCapacity int64
	Seccomp        SeccompProfiles
	Unified        map[string]string // values of the container's cgroup on v2, by file
	// TargetID makes an ephemeral container join the process namespace of that container.
	TargetID string
}

// Config builds the runtime's container configuration.
func Config(in Input) (*runtimeapi.ContainerConfig, error) {
	c := in.Container
	annotations, err := cri.ContainerAnnotations(in.Pod, c, in.Restarts)
	if err != nil {
		return nil, err
	}
	if err := VerifyNonRoot(in.Pod, c, in.User); err != nil {
		return nil, err
	}
	security, err := Security(in.Pod, c, in.User, in.Seccomp)
	if err != nil {
		return nil, err
	}
	if in.TargetID != "" && security.NamespaceOptions.Pid == runtimeapi.NamespaceMode_CONTAINER {
		security.NamespaceOptions.Pid = runtimeapi.NamespaceMode_TARGET
		security.NamespaceOptions.TargetId = in.TargetID
	}
	expand := func(list []string) []string {
		var out []string
		for _, s := range list {
			out = append(out, Expand(s, mapLookup(in.EnvValues)))
		}
		return out
	}
	signal := runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT
	if c.Lifecycle != nil && c.Lifecycle.StopSignal != nil {
		n, ok := runtimeapi.Signal_value["SIGNAL_"+string(*c.Lifecycle.StopSignal)]
		if !ok {
			return nil, fmt.Errorf("container %s: unknown stop signal %q", c.Name, *c.Lifecycle.StopSignal)
		}
		signal = runtimeapi.Signal(n)
	}
	resources := Resources(in.Pod, c, in.MemoryCapacity)
	resources.Unified = in.Unified
	return &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(in.Restarts)},
		Image:       &runtimeapi.ImageSpec{Image: in.ImageID, UserSpecifiedImage: c.Image},
		Command:     expand(c.Command),
		Args:        expand(c.Args),
		WorkingDir:  c.WorkingDir,
		Labels:      cri.ContainerLabels(in.Pod, c),
		Annotations: annotations,
		Envs:        in.Env,
		Mounts:      in.Mounts,
		Devices:     in.Devices,
		LogPath:     LogPath(c.Name, in.Restarts),
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		StopSignal:  signal,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       resources,
			SecurityContext: security,
		},
	}, nil
}

// LogPath is a container's log file below its pod's log directory.
func LogPath(name string, restarts int32) string {
	return filepath.Join(name, strconv.Itoa(int(restarts))+".log")
}
