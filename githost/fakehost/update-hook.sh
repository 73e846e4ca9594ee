#!/bin/sh
rules=fakehost-rules
[ -f "$rules" ] || exit 0
who=${REMOTE_USER:-@BOT@}
refuse() {
	echo "error: GH006: Protected branch update failed for $1." >&2
	echo "error: $2" >&2
	exit 1
}
violates() {
	echo "error: GH013: Repository rule violations found for $1." >&2
	echo "" >&2
	echo "- $2" >&2
	exit 1
}
deny() {
	echo "GitLab: $1" >&2
	exit 1
}
forced() {
	case "$1" in *[!0]*) ! git merge-base --is-ancestor "$1" "$2" 2>/dev/null ;; *) false ;; esac
}
# What the commit changes since it left the default branch.
touched() {
	git -c core.quotePath=false diff --name-only --no-renames "HEAD...$1" 2>/dev/null || git -c core.quotePath=false ls-tree -r --name-only "$1"
}
case "$3" in *[!0]*)
	if [ "$who" = @BOT@ ] && { [ -n "$FAKEHOST_NO_WORKFLOWS" ] || grep -qx "push workflows -" "$rules"; }; then
		file=$(touched "$3" | grep "^\.github/workflows/" | head -n 1)
		if [ -n "$file" ]; then
			echo "refusing to allow a GitHub App to create or update workflow \`$file\` without \`workflows\` permission" >&2
			exit 1
		fi
	fi
	while read -r kind what value; do
		case "$kind $what" in
		"push path")
			touched "$3" | while read -r file; do
				case "$file" in $value) echo "$file"; break ;; esac
			done >fakehost-found.$$
			read -r file <fakehost-found.$$
			rm -f fakehost-found.$$
			[ -z "$file" ] || violates "$1" "File path is restricted: $file" ;;
		"push size")
			file=$(git rev-list --objects "$3" --not --all | git cat-file --batch-check="%(objecttype) %(objectsize) %(rest)" |
				awk -v most="$value" '$1 == "blob" && $2 > most { print $3; exit }')
			if [ -n "$file" ]; then
				echo "error: File $file is too large; this exceeds GitHub's file size limit of $value bytes" >&2
				echo "error: GH001: Large files detected. You may want to try Git Large File Storage - https://git-lfs.github.com." >&2
				exit 1
			fi ;;
		esac
	done <"$rules"
	;;
esac
while read -r kind ref kinds bypass; do
	[ "$kind $ref" = "rule $1" ] || continue
	case ",$kinds," in *,keep,*) forced "$2" "$3" && deny "You are not allowed to force push code to a protected branch on this project." ;; esac
	case ",$bypass," in *",$who,"*) exit 0 ;; esac
	case ",$kinds," in *,level,*) deny "You are not allowed to push code to protected branches on this project." ;; esac
	case ",$kinds," in *,queue,*) refuse "$1" "Changes must be made through the merge queue" ;; esac
	case ",$kinds," in *,review,*) refuse "$1" "Changes must be made through a pull request." ;; esac
	case ",$kinds," in *,checks,*) grep -qxF "ok $1 $3" "$rules" || refuse "$1" "Required status checks are expected." ;; esac
	case ",$kinds," in *,linear,*) [ -z "$(git rev-list --merges "$3" "^$2")" ] || refuse "$1" "This branch must not contain merge commits." ;; esac
done <"$rules"
