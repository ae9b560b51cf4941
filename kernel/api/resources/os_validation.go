package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateOS refuses what the pod's declared system does not have.
func validateOS(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	if s.OS == nil {
		return nil
	}
	if s.OS.Name == "" {
		return field.ErrorList{field.Required(path.Child("os", "name"), "")}
	}
	if errs := supported(path.Child("os"), s.OS.Name, corev1.Linux, corev1.Windows); len(errs) > 0 {
		return errs
	}
	var errs field.ErrorList
	forbid := func(set bool, p *field.Path, why string) {
		if set {
			errs = append(errs, field.Forbidden(p, why))
		}
	}
	const noLinux, noWindows = "windows options cannot be set for a linux pod", "cannot be set for a windows pod"
	windows := s.OS.Name == corev1.Windows
	sec := path.Child("securityContext")
	if sc := s.SecurityContext; sc != nil {
		if !windows {
			forbid(sc.WindowsOptions != nil, sec.Child("windowsOptions"), noLinux)
		} else {
			forbid(sc.AppArmorProfile != nil, sec.Child("appArmorProfile"), noWindows)
			forbid(sc.SELinuxOptions != nil, sec.Child("seLinuxOptions"), noWindows)
			forbid(sc.SeccompProfile != nil, sec.Child("seccompProfile"), noWindows)
			forbid(sc.FSGroup != nil, sec.Child("fsGroup"), noWindows)
			forbid(sc.FSGroupChangePolicy != nil, sec.Child("fsGroupChangePolicy"), noWindows)
			forbid(len(sc.Sysctls) > 0, sec.Child("sysctls"), noWindows)
			forbid(sc.RunAsUser != nil, sec.Child("runAsUser"), noWindows)
			forbid(sc.RunAsGroup != nil, sec.Child("runAsGroup"), noWindows)
			forbid(sc.SupplementalGroups != nil, sec.Child("supplementalGroups"), noWindows)
			forbid(sc.SupplementalGroupsPolicy != nil, sec.Child("supplementalGroupsPolicy"), noWindows)
			forbid(sc.SELinuxChangePolicy != nil, sec.Child("seLinuxChangePolicy"), noWindows)
		}
	}
	if windows {
		forbid(s.HostUsers != nil, path.Child("hostUsers"), noWindows)
		forbid(s.HostPID, path.Child("hostPID"), noWindows)
		forbid(s.HostIPC, path.Child("hostIPC"), noWindows)
		forbid(s.ShareProcessNamespace != nil, path.Child("shareProcessNamespace"), noWindows)
	}
	container := func(sc *corev1.SecurityContext, p *field.Path) {
		if sc == nil {
			return
		}
		p = p.Child("securityContext")
		if !windows {
			forbid(sc.WindowsOptions != nil, p.Child("windowsOptions"), noLinux)
			return
		}
		forbid(sc.AppArmorProfile != nil, p.Child("appArmorProfile"), noWindows)
		forbid(sc.SELinuxOptions != nil, p.Child("seLinuxOptions"), noWindows)
		forbid(sc.SeccompProfile != nil, p.Child("seccompProfile"), noWindows)
		forbid(sc.Capabilities != nil, p.Child("capabilities"), noWindows)
		forbid(sc.ReadOnlyRootFilesystem != nil, p.Child("readOnlyRootFilesystem"), noWindows)
		forbid(sc.Privileged != nil, p.Child("privileged"), noWindows)
		forbid(sc.AllowPrivilegeEscalation != nil, p.Child("allowPrivilegeEscalation"), noWindows)
		forbid(sc.ProcMount != nil, p.Child("procMount"), noWindows)
		forbid(sc.RunAsUser != nil, p.Child("runAsUser"), noWindows)
		forbid(sc.RunAsGroup != nil, p.Child("runAsGroup"), noWindows)
	}
	for i := range s.InitContainers {
		container(s.InitContainers[i].SecurityContext, path.Child("initContainers").Index(i))
	}
	for i := range s.Containers {
		container(s.Containers[i].SecurityContext, path.Child("containers").Index(i))
	}
	for i := range s.EphemeralContainers {
		container(s.EphemeralContainers[i].SecurityContext, path.Child("ephemeralContainers").Index(i))
	}
	return errs
}
