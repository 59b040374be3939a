# Completes the files of the Debian package before CPack packs them: what Debian's policy requires beyond `cmake --install`.
set(share "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share")
set(doc "${share}/doc/yoke")

file(REMOVE "${doc}/LICENSE") # Debian has a copy
file(WRITE "${doc}/copyright" "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: yoke

Files: *
Copyright: 2026 the yoke developers
License: Apache-2.0
 On Debian systems, the text of the license is in /usr/share/common-licenses/Apache-2.0.
")
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # of SOURCE_DATE_EPOCH, if it is set
file(WRITE "${doc}/changelog" "yoke (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * CHANGELOG.md in this directory lists the changes.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
file(GLOB pages "${share}/man/man1/*.1")
execute_process(COMMAND gzip -9n ${pages} "${doc}/changelog" COMMAND_ERROR_IS_FATAL ANY)

# The zsh of Debian does not look in site-functions of /usr.
file(MAKE_DIRECTORY "${share}/zsh/vendor-completions")
file(RENAME "${share}/zsh/site-functions/_yoke" "${share}/zsh/vendor-completions/_yoke")
file(REMOVE_RECURSE "${share}/zsh/site-functions")

# lintian takes the version of libdeflate, which `yoke version` prints, for that of an embedded zlib.
file(WRITE "${share}/lintian/overrides/yoke" "yoke: embedded-library zlib *\n")
