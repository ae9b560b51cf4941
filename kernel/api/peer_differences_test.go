package api

// peerDifferences lists where the answers differ from upstream's: a part of
// "group verb edit: difference", and why.
var peerDifferences = map[string]string{
	"metadata.ownerReferences": "k8s.io/apimachinery 0.37, which checks owners for both, names the element and calls it required",

	"resourceclaim-allocated status {\"/status/devices/0/conditions/": "k8s.io/apimachinery 0.37 checks conditions by other rules than 0.36",

	"pdb status {\"/status/conditions\"": "k8s.io/apimachinery 0.37 checks conditions by other rules than 0.36",

	"job-indexed update {\"/spec/completions\":null}": "upstream's validation of a success policy panics where there are no completions",

	"rc create {\"/metadata/name\":\"longlong": "k8s.io/apimachinery counts characters; upstream's declarative rule for this one kind says bytes",

	"deployment create {\"/spec/strategy\":{\"rollingUpdate\":{\"maxSurge\":1},\"type\":\"Recreate\"}}": "the object is refused by both; upstream's echo of it shows a zero that its internal type holds",

	"exists in both matchLabelKeys and labelSelector": "refused by both for the keys that are doubled; upstream compares once more after it has merged them",

	"scheduler.alpha.kubernetes.io/preferAvoidPods": "an annotation that no scheduler has read since 1.22",

	"default /status: too much: map[]": "CSINode has a status in k8s.io/api 0.37, which stays empty",

	"volume.beta.kubernetes.io/mount-options": "the beta annotation of mount options is kept and not read; spec.mountOptions is checked",
}
