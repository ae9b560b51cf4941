// Box is the program in the images of the end-to-end tests: small verbs that
// show what a container sees and does.
package main
