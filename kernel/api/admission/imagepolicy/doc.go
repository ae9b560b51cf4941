// Package imagepolicy is the admission plugin ImagePolicyWebhook: a server says
// whether pods may have their images.
//
// How data passes through: a pod that is made or changed, or its new ephemeral
// containers → an ImageReview (imagepolicy.k8s.io/v1alpha1) with the images and the
// annotations *.image-policy.k8s.io/* → what was answered a while ago, or the server →
// the pod passes or is refused. A server that fails lets all pods pass or none, as
// configured. Answers are bounded in time and size, redirects are not followed.
package imagepolicy
